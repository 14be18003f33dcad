#!/usr/bin/env python3
"""Rules of the house that a machine can check: include layers, library adapters, tests that can fail.

    check_tree.py [ROOT]            exit 1 and one line a finding
    check_tree.py --self-test       shows that each rule finds its breach
"""

import pathlib
import re
import subprocess
import sys
import tempfile

SOURCE = {".h", ".cc"}
# A library's headers, and the only folders that may name them.
ADAPTERS = {
    "zmq": ("common/transport", "common/actor"),
    "flatbuffers/": ("common/transport",),
    "spdlog/": ("common/base",),
    "boost/": ("coordinator/api",),
    "yaml-cpp/": ("common/config",),
    "hwy/": ("kernels",),
    "curl/": ("deploy/cli",),
    "pcre2": ("common/text",),
    "utf8proc": ("common/text",),
    "prometheus/": ("coordinator/api",),
}


def read_layers(root):
    layers = {}
    for line in (root / "tests/tidy/layers.txt").read_text().splitlines():
        if line.strip() and not line.startswith("#"):
            folder, _, allowed = line.partition(":")
            layers[folder.strip()] = allowed.split()
    return layers


def within(path, prefix):
    """`prefix` names a folder, a file, or a file without its suffix."""
    return path == prefix or path.startswith(prefix + "/") or path.startswith(prefix + ".")


def layer_findings(path, includes, layers):
    owner = max((f for f in layers if within(path, f)), key=len, default=None)
    if owner is None:
        return [f"{path}: no layer is stated for it; add its folder to tests/tidy/layers.txt"]
    findings = []
    for include in includes:
        if not re.match(r"(common|kernels|coordinator|stage_worker|draft_worker|deploy|schemas)/", include):
            continue
        own = path.rsplit("/", 1)[0]
        if within(include, owner) or include.rsplit("/", 1)[0] == own:
            continue
        if not any(within(include, allowed) for allowed in layers[owner]):
            findings.append(f"{path}: may not include {include}; {owner} may include: {' '.join(layers[owner]) or 'nothing'}")
    return findings


def adapter_findings(path, system_includes):
    findings = []
    for include in system_includes:
        for library, folders in ADAPTERS.items():
            if include.startswith(library) and not any(within(path, f) for f in folders):
                findings.append(f"{path}: names <{include}>; only {' and '.join(folders)} may, use their adapter")
    return findings


def test_findings(path, text):
    if path.endswith("_test.cc") and not re.search(r"\b(EXPECT|ASSERT)_|ADD_FAILURE|FAIL\(", text):
        return [f"{path}: asserts nothing; a test must be able to fail"]
    return []


def check(root):
    layers = read_layers(root)
    listed = subprocess.run(["git", "-C", str(root), "ls-files", "-co", "--exclude-standard"], capture_output=True, text=True)
    findings, count = [], 0
    for path in listed.stdout.splitlines():
        file = root / path
        if file.suffix not in SOURCE or not file.exists():
            continue
        count += 1
        text = file.read_text(errors="replace")
        quoted = re.findall(r'^\s*#include "([^"]+)"', text, re.M)
        if path.startswith("tests/"):
            findings += test_findings(path, text)
            continue
        findings += layer_findings(path, quoted, layers)
        findings += adapter_findings(path, re.findall(r"^\s*#include <([^>]+)>", text, re.M) + quoted)
        # Highway includes its -inl.h files once per instruction set.
        if file.suffix == ".h" and not path.endswith("-inl.h") and "#pragma once" not in text:
            findings.append(f"{path}: a header without #pragma once")
        if "std::regex" in re.sub(r"//.*", "", text):
            findings.append(f"{path}: std::regex has no limits; use a scanner or common/text's PCRE2")
    return findings, count


def self_test():
    with tempfile.TemporaryDirectory() as name:
        root = pathlib.Path(name)
        breaches = {
            "common/base/a.h": '#pragma once\n#include "common/model/m.h"\n',
            "coordinator/b.cc": '#include "kernels/matmul/matmul.h"\n',
            "deploy/cli/c.cc": "#include <zmq.hpp>\n",
            "kernels/d.h": "int no_guard;\n",
            "common/text/e.cc": "std::regex r;\n",
            "tests/unit/f_test.cc": "int main() {}\n",
            "elsewhere/g.cc": "int x;\n",
        }
        breaches["tests/tidy/layers.txt"] = (pathlib.Path(__file__).parent / "layers.txt").read_text()
        for path, text in breaches.items():
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_text(text)
        subprocess.run(["git", "-C", name, "init", "-q"], check=True)
        found, _ = check(root)
        missed = [p for p in breaches if p.endswith((".h", ".cc")) and not any(f.startswith(p) for f in found)]
        if missed:
            print("not found: " + ", ".join(missed))
        return 1 if missed else 0


def main():
    if sys.argv[1:] == ["--self-test"]:
        return self_test()
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ".").resolve()
    findings, count = check(root)
    print("\n".join(findings))
    print(f"{count} files read, {len(findings)} findings")
    return 1 if findings or count == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
