"""Makes stand-ins for the CUDA libraries that torch's ordinary wheel is linked to: `cuda_stand_ins.py SITE_PACKAGES`.

The wheel needs them to be loadable even where nothing runs on a GPU, and they are gigabytes. A stand-in has every symbol that
torch asks of it, each a function that says "no device". Where the real libraries are installed nothing is done.
"""

import re
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

# cudaErrorNoDevice, and no success in any of the libraries.
NO_DEVICE = 100
SYSTEM = re.compile(r"(libc|libm|libdl|librt|libpthread|libgomp|libstdc\+\+|libgcc_s|ld-linux)[.\-]")
VERSION_OF_SYSTEM = re.compile(r"(GLIBC|GCC|CXXABI|OMP|GOMP)")
OF_CUDA = re.compile(r"_*(cu|nv|nccl)[A-Za-z_]")
# Their callers print what they return.
TEXTS = re.compile(r"(cuda|cudnn|nccl|cublas|cusparse|cufft|nvrtc)Get\w*(Error|Status)(String|Name)$|ncclGetLastError$")


def main(site_packages: Path) -> None:
    libraries = sorted((site_packages / "torch" / "lib").glob("*.so*"))
    needed = {name for library in libraries for name in needed_by(library)}
    missing = sorted(needed - {library.name for library in libraries})
    missing = [name for name in missing if not SYSTEM.match(name) and not any(site_packages.glob(f"nvidia/**/{name}"))]
    if not missing:
        return
    for name, symbols in share_out(libraries, missing).items():
        build(site_packages / "torch" / "lib" / name, symbols)
    print(f"{len(missing)} stand-ins: {' '.join(missing)}", file=sys.stderr)


def needed_by(library: Path) -> list[str]:
    return re.findall(r"\(NEEDED\).*\[(.+)\]", output("readelf", "--dynamic", "--wide", library))


def share_out(libraries: list[Path], missing: list[str]) -> dict[str, dict[str, set[str]]]:
    """Library -> version -> symbols. A symbol without a version may stand in any of them, so it goes to the first."""
    asked, given = set(), set()
    for library in libraries:
        for line in output("nm", "--dynamic", "--with-symbol-versions", library).splitlines():
            kind, name = line.split()[-2:]
            symbol, _, version = name.partition("@")
            if kind == "U":
                asked.add((symbol, version.lstrip("@")))
            elif kind not in "wv":
                given.add(symbol)
    shares: dict[str, dict[str, set[str]]] = {name: defaultdict(set) for name in missing}
    for symbol, version in asked:
        if symbol not in given and (home := home_of(symbol, version, missing)):
            shares[home][version].add(symbol)
    return shares


def home_of(symbol: str, version: str, missing: list[str]) -> str | None:
    if not version:
        return missing[0] if OF_CUDA.match(symbol) else None
    if VERSION_OF_SYSTEM.match(version):
        return None
    if version in missing:
        return version
    return next((name for name in missing if version.startswith(name.split(".so")[0])), missing[0])


def build(library: Path, versions: dict[str, set[str]]) -> None:
    source, script = library.with_suffix(".c"), library.with_suffix(".map")
    functions = [function(symbol) for symbols in versions.values() for symbol in sorted(symbols)]
    source.write_text("\n".join(functions) + "\n")
    named = {version: symbols for version, symbols in versions.items() if version}
    script.write_text("\n".join(exported(*each) for each in named.items()))
    flags = ["-w", "-fno-builtin", "-shared", "-fPIC", f"-Wl,-soname,{library.name}"]
    flags += [f"-Wl,--version-script={script}"] if named else []
    subprocess.run(["gcc", *flags, "-o", library, source], check=True)
    source.unlink()
    script.unlink()


def exported(version: str, symbols: set[str]) -> str:
    """A node of a version script."""
    return f"{version} {{ global: {' '.join(f'{symbol};' for symbol in sorted(symbols))} }};"


def function(symbol: str) -> str:
    if TEXTS.match(symbol):
        return f'const char *{symbol}(void) {{ return "there is no CUDA here"; }}'
    return f"long {symbol}(void) {{ return {NO_DEVICE}; }}"


def output(*command: object) -> str:
    return subprocess.run([str(part) for part in command], check=True, capture_output=True, text=True).stdout


if __name__ == "__main__":
    main(Path(sys.argv[1]))
