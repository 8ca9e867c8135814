"""A server of pictures over https: python3 https_server.py CERTIFICATE KEY PICTURE PORT_FILE. It ends with its standard input.

/shapes.png is the picture. The others are what a host should not be: /missing, /moved, /announced and /endless with too many bytes,
/short with fewer than announced, /slow with a byte now and then, /silent with none.
"""
import http.server
import os
import pathlib
import ssl
import sys
import threading
import time

certificate, key, picture, port_file = sys.argv[1:]


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        if self.path == "/silent":
            time.sleep(600)
        self.send_response({"/missing": 404, "/moved": 302}.get(self.path, 200))
        if self.path == "/moved":
            self.send_header("Location", "/shapes.png")
        body = pathlib.Path(picture).read_bytes()
        length = {"/shapes.png": len(body), "/missing": len(body), "/announced": 1 << 40, "/short": 2 * len(body)}.get(self.path)
        if length:
            self.send_header("Content-Length", str(length))
        self.end_headers()
        self.wfile.write(body)
        while self.path == "/endless":
            self.wfile.write(bytes(100_000))
        while self.path == "/slow":
            time.sleep(0.05)
            self.wfile.write(b"x")

    def log_message(self, *_):
        pass


class Server(http.server.ThreadingHTTPServer):
    def handle_error(self, *_):  # clients leave when they have seen enough
        pass


server = Server(("127.0.0.1", 0), Handler)
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(certificate, key)
server.socket = context.wrap_socket(server.socket, server_side=True)
threading.Thread(target=server.serve_forever, daemon=True).start()
pathlib.Path(port_file + ".new").write_text(str(server.server_address[1]))
os.rename(port_file + ".new", port_file)
sys.stdin.read()
os._exit(0)
