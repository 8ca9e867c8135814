"""Joins the shader texts into one library: as MSL, or as a C++ file that holds it as kShaderText.

    join.py OUT.metal|OUT.cpp dims.h layout.h common.metal FAMILY.metal...

Line numbers in messages of the compiler are those of the files."""
import os
import sys

out, files = sys.argv[1], sys.argv[2:]
# A multiplication and an addition are fused only where a kernel says fma: results are part of the definition.
text = "#include <metal_stdlib>\nusing namespace metal;\n#pragma METAL fp contract(off)\n"
for path in files:
    with open(path) as file:
        text += f'#line 1 "{os.path.basename(path)}"\n' + file.read()
if out.endswith(".cpp"):
    # One literal for each line: their length is limited in some compilers.
    pieces = "\n".join(f'R"msl({line})msl" "\\n"' for line in text.splitlines())
    text = f"namespace lapidary::metal {{\nextern const char* const kShaderText;\nconst char* const kShaderText =\n{pieces};\n}}\n"
with open(out, "w") as file:
    file.write(text)
