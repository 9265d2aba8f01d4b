#!/usr/bin/env python3
"""Holds the hub download against the official client (developer tool; PyPI: huggingface_hub).

    tools/compare_hub.py BUILD_DIR

A small hub on 127.0.0.1 serves a model and a data set to both; their caches must be the same tree:
same files, links, references, bytes. Then each reads the cache that the other left, without a network.
"""
import hashlib
import http.server
import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile
import threading

ROOT = pathlib.Path(__file__).resolve().parent.parent
COMMIT = "0123456789abcdef0123456789abcdef01234567"
RNG = random.Random(1)
REPOS = {
    "models/org/Model-1.0": {
        "config.json": b"{}", "generation_config.json": b'{"eos_token_id": [1, 2]}', "tokenizer.json": RNG.randbytes(300000),
        "tokenizer_config.json": b"{}", "chat_template.jinja": b"{{ messages }}", "README.md": b"# no",
        "model.safetensors.index.json": json.dumps({"weight_map": {"a": "model-00001-of-00002.safetensors", "b": "model-00002-of-00002.safetensors"}}).encode(),
        "model-00001-of-00002.safetensors": RNG.randbytes(2000000), "model-00002-of-00002.safetensors": RNG.randbytes(1000001), "pytorch_model.bin": b"no"},
    "datasets/org/data": {"README.md": b"# card", "data/train-00000-of-00002.parquet": RNG.randbytes(100000), "data/train-00001-of-00002.parquet": RNG.randbytes(70000)},
}
WANTED = {"models/org/Model-1.0": ["*.json", "*.jinja", "*.safetensors"], "datasets/org/data": ["*.parquet", "README.md"]}


def is_large(path):
    return path.endswith((".safetensors", ".parquet", "tokenizer.json"))


def etag(path, data):
    return hashlib.sha256(data).hexdigest() if is_large(path) else hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()


class Hub(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *args):
        pass

    def answer(self, status, headers, body=b""):
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        if "Content-Length" not in headers:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def do_GET(self):
        path = self.path.split("?")[0]
        for repo, files in REPOS.items():
            kind, name = repo.split("/", 1)
            if path in (f"/api/{repo}/revision/main", f"/api/{repo}/revision/{COMMIT}", f"/api/{repo}"):
                siblings = [{"rfilename": p, "size": len(d), "blobId": "0" * 40} for p, d in files.items()]
                return self.answer(200, {"Content-Type": "application/json"}, json.dumps({"id": name, "sha": COMMIT, "siblings": siblings, "private": False, "tags": [], "downloads": 0, "likes": 0}).encode())
            if path == f"/api/{repo}/tree/{COMMIT}":
                tree = [{"type": "file", "path": p, "size": len(d), "oid": "0" * 40} for p, d in files.items()]
                return self.answer(200, {"Content-Type": "application/json"}, json.dumps(tree).encode())
            prefix = f"/{name}/resolve/{COMMIT}/" if kind == "models" else f"/datasets/{name}/resolve/{COMMIT}/"
            file = path[len(prefix):]
            if path.startswith(prefix) and file in files:
                data, tag = files[file], etag(file, files[file])
                common = {"X-Repo-Commit": COMMIT, "ETag": f'"{tag}"'}
                if is_large(file):
                    return self.answer(302, common | {"Location": f"http://localhost:{self.server.server_port}/cdn/{repo}/{file}", "X-Linked-Etag": f'"{tag}"', "X-Linked-Size": str(len(data))})
                return self.answer(200, common | ({"Content-Length": str(len(data))} if self.command == "HEAD" else {}), data)
            if path.startswith(f"/cdn/{repo}/"):
                assert "authorization" not in {k.lower() for k in self.headers}, "the token left the hub"
                data = files[path[len(f"/cdn/{repo}/"):]]
                start = int((self.headers.get("Range") or "bytes=0-")[6:].split("-")[0])
                headers = {"Content-Range": f"bytes {start}-{len(data) - 1}/{len(data)}"} if start else {}
                return self.answer(206 if start else 200, headers, data[start:])
        return self.answer(404, {"X-Error-Code": "RepoNotFound"})

    do_HEAD = do_GET


def driver(build):
    binary = pathlib.Path(build) / "hub_driver"
    libraries = [str(pathlib.Path(build) / f"libglmtune_{x}.a") for x in ("io", "dist", "ops", "tensor", "cuda", "base")]
    command = ["c++", "-std=c++20", "-O2", f"-I{ROOT}/src", str(ROOT / "tools/hub_driver.cpp")]
    subprocess.run(command + libraries + ["-lcurl", "-lsimdjson", "-lz", "-lfmt", "-ldnnl", "-fopenmp", "-o", str(binary)], check=True)
    return str(binary)


def tree(root):
    out = {}
    for path in sorted(pathlib.Path(root).rglob("*")):
        name = str(path.relative_to(root))
        # Locks, and the client's own notes: a tag for backup programs, listings of commits.
        if "/.locks" in "/" + name or name == "CACHEDIR.TAG" or path.parent.name == "trees":
            continue
        if path.is_symlink():
            out[name] = "-> " + os.readlink(path)
        elif path.is_file():
            out[name] = hashlib.sha256(path.read_bytes()).hexdigest()
    return out


OFFICIAL = "import sys, huggingface_hub as h; print(h.snapshot_download(sys.argv[1], repo_type=sys.argv[2], allow_patterns=sys.argv[3].split()))"


def main():
    binary = driver(sys.argv[1])
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Hub)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    bad = 0
    with tempfile.TemporaryDirectory() as folder:
        base = os.environ | {"HF_ENDPOINT": f"http://127.0.0.1:{server.server_port}", "HF_TOKEN": "hf_secret", "HF_HUB_DISABLE_XET": "1", "HF_HUB_DISABLE_PROGRESS_BARS": "1"}
        base.pop("HF_HUB_CACHE", None)
        for repo, patterns in WANTED.items():
            kind, name = repo.split("/", 1)

            def ours(home, **more):
                return subprocess.run([binary, kind[:-1], name], env=base | {"HF_HOME": home} | more, check=True, stdout=subprocess.PIPE).stdout.decode().strip()

            def official(home, **more):
                return subprocess.run([sys.executable, "-c", OFFICIAL, name, kind[:-1], " ".join(patterns)], env=base | {"HF_HOME": home} | more, check=True, stdout=subprocess.PIPE).stdout.decode().strip()

            got, want = ours(f"{folder}/a"), official(f"{folder}/b")
            if got.replace("/a/", "/b/") != want:
                bad += 1
                print(repo, "folders differ:", got, want)
            a, b = tree(f"{folder}/a/hub"), tree(f"{folder}/b/hub")
            for path in sorted(set(a) | set(b)):
                if a.get(path) != b.get(path):
                    bad += 1
                    print(repo, path, "\n  ours    ", a.get(path), "\n  official", b.get(path))
            print(f"{repo}: {len(a)} files and links compared")
            # Each finds what the other left, without a network.
            if ours(f"{folder}/b", HF_HUB_OFFLINE="1") != want or official(f"{folder}/a", HF_HUB_OFFLINE="1") != got:
                bad += 1
                print(repo, "the other's cache is not found offline")
    print(f"{bad} differences")
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
