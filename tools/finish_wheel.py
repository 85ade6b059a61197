"""Makes a wheel that needs nothing but the C and C++ runtime: grafts every other library into it, and adds their terms.

    python tools/finish_wheel.py build/wheel/raw/*.whl build/wheel/dist

auditwheel does the grafting. Its policy takes the libraries of a desktop (X11, which Cairo's are linked to) for granted;
a server or a container has none of them, so they are grafted too. Each grafted library (its name without auditwheel's
hash), font and data file is looked up by dpkg; the package's copyright file goes to
plimsoll/share/plimsoll/licenses/PACKAGE. A file that no package owns is an error.
"""

import json
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import auditwheel.policy
from auditwheel.main import main as auditwheel_main

OWN_PART = "libplimsoll_mpi.so"  # src/ranks/mpi

# Parts of glibc, and GCC's runtime.
RUNTIME = re.compile(r"(lib(c|m|dl|rt|pthread|util|resolv|anl|mvec|gcc_s|stdc\+\+)\.so\.\d+|ld-linux.*|ld64.*)$")


def main() -> None:
    wheel, destination = Path(sys.argv[1]), Path(sys.argv[2])
    with tempfile.TemporaryDirectory() as folder:
        repaired = repair(wheel, Path(folder))
        root = unpack(repaired, Path(folder) / "unpacked")
        add_terms(root)
        for program in (root / "plimsoll/bin").iterdir():
            program.chmod(0o755)  # unpacking forgets it
        destination.mkdir(parents=True, exist_ok=True)
        run("-m", "wheel", "pack", "--dest-dir", destination, root)


def run(*arguments) -> None:
    subprocess.run([sys.executable, *arguments], check=True, stdout=subprocess.DEVNULL)


def repair(wheel: Path, folder: Path) -> Path:
    policies = auditwheel.policy._POLICY_JSON_MAP  # no option says which libraries are there
    for libc, path in policies.items():
        rows = json.loads(path.read_text())
        for row in rows:
            row["lib_whitelist"] = [name for name in row["lib_whitelist"] if RUNTIME.match(name)]
        policies[libc] = folder / f"{libc.name}.json"
        policies[libc].write_text(json.dumps(rows))
    # Open MPI is used where the system has it: ranks must speak the MPI of their launcher.
    sys.argv = ["auditwheel", "repair", "--strip", "--exclude", "libmpi.so*", "--exclude", "libopen-*", "--wheel-dir", str(folder / "repaired"), str(wheel)]
    if auditwheel_main():
        sys.exit("error: auditwheel failed; what it said stands above")
    (repaired,) = (folder / "repaired").glob("*.whl")
    return repaired


def unpack(wheel: Path, folder: Path) -> Path:
    run("-m", "wheel", "unpack", "--dest", folder, wheel)
    (root,) = folder.iterdir()
    return root


def add_terms(root: Path) -> None:
    foreign = [path for folder in ("plimsoll.libs", "plimsoll/lib", "plimsoll/share") for path in (root / folder).rglob("*")
               if path.is_file() and path.name != OWN_PART]
    packages = {package_of(original_name(path.name)) for path in foreign}
    folder = root / "plimsoll/share/plimsoll/licenses"
    folder.mkdir(parents=True)
    for package in packages:
        shutil.copy(Path("/usr/share/doc") / package / "copyright", folder / package)
    print(f"wheel: {len(foreign)} files of {len(packages)} packages, with their terms")


def original_name(name: str) -> str:
    """libpng16-ab12cd34.so.16.39.0 is libpng16.so.16.39.0: auditwheel writes a hash before the first dot."""
    return re.sub(r"-[0-9a-f]{8}(?=\.)", "", name, count=1)


def package_of(name: str) -> str:
    found = subprocess.run(["dpkg", "-S", f"*/{name}*"], capture_output=True, text=True, check=False).stdout.splitlines()
    owners = [line.split(": ")[0].split(":")[0] for line in found]
    if not owners:
        sys.exit(f"error: no package of this distribution owns {name}, whose terms would have to be shipped")
    return owners[0]


if __name__ == "__main__":
    main()
