// libsndfile 1.2.0 does not free what it has of an Ogg file that it refuses. Where its code keeps no frame pointers, only libvorbis is
// seen to have asked for it. Included once in a program that reads such files.
#pragma once

extern "C" const char* __lsan_default_suppressions();
extern "C" const char* __lsan_default_suppressions() { return "leak:libsndfile.so\nleak:libvorbis.so\n"; }
