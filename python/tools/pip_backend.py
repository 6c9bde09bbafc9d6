"""What `pip install .` calls (PEP 517): builds the module with CMake and packs it as a wheel.

RIDGEPOINT_CMAKE_ARGS gives CMake more arguments, such as -DRIDGEPOINT_CUDA=OFF.
"""

import base64
import hashlib
import os
import pathlib
import re
import shlex
import subprocess
import sys
import sysconfig
import tempfile
import zipfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
SUMMARY = "Where the time and the memory of a Transformer training step go"


def version():
    return re.search(r"project\(ridgepoint VERSION ([0-9.]+)", (ROOT / "CMakeLists.txt").read_text()).group(1)


def information():
    return f"ridgepoint-{version()}.dist-info"


def tag():
    """Of this Python and this machine: cp311-cp311-linux_x86_64."""
    python = f"cp{sys.version_info.major}{sys.version_info.minor}"
    return f"{python}-{python}-{sysconfig.get_platform().replace('-', '_').replace('.', '_')}"


def build_module(folder):
    """Builds the module in a folder beside build/, which a later call goes on with, and installs it into `folder`."""
    build = ROOT / f"build-{sys.implementation.cache_tag}"
    options = ["-DRIDGEPOINT_TESTS=OFF", "-DRIDGEPOINT_PYTHON_DIR=.", f"-DPython_EXECUTABLE={sys.executable}",
               *shlex.split(os.environ.get("RIDGEPOINT_CMAKE_ARGS", ""))]
    subprocess.run(["cmake", "--preset", "release", "-B", build, *options], check=True, cwd=ROOT)
    targets = subprocess.run(["cmake", "--build", build, "--target", "help"], check=True, capture_output=True,
                             text=True).stdout
    if "ridgepoint_python_stubs" not in targets:
        sys.exit("ridgepoint: Python's headers or pybind11 are not found; on Debian: apt install python3-dev "
                 "pybind11-dev")
    subprocess.run(["cmake", "--build", build, "--target", "ridgepoint_python_stubs"], check=True)
    subprocess.run(["cmake", "--install", build, "--component", "python", "--strip", "--prefix", folder], check=True)


def metadata():
    return f"Metadata-Version: 2.1\nName: ridgepoint\nVersion: {version()}\nSummary: {SUMMARY}\nRequires-Python: >=3.9\n" \
           "Provides-Extra: graph\nRequires-Dist: numpy; extra == 'graph'\n" \
           "Provides-Extra: frame\nRequires-Dist: pandas; extra == 'frame'\n"


def digest(content):
    return "sha256=" + base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()


def information_files():
    """What a wheel says of itself, by path."""
    wheel = f"Wheel-Version: 1.0\nGenerator: ridgepoint\nRoot-Is-Purelib: false\nTag: {tag()}\n"
    return {f"{information()}/METADATA": metadata().encode(), f"{information()}/WHEEL": wheel.encode()}


def prepare_metadata_for_build_wheel(metadata_directory, config_settings=None):
    """Without it, pip would build the module twice."""
    for path, content in information_files().items():
        file = pathlib.Path(metadata_directory) / path
        file.parent.mkdir(exist_ok=True)
        file.write_bytes(content)
    return information()


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    name = f"ridgepoint-{version()}-{tag()}.whl"
    with tempfile.TemporaryDirectory() as folder:
        build_module(folder)
        files = {path.relative_to(folder).as_posix(): path.read_bytes()
                 for path in sorted(pathlib.Path(folder).rglob("*")) if path.is_file()}
    files.update(information_files())
    lines = [f"{path},{digest(content)},{len(content)}" for path, content in files.items()]
    files[f"{information()}/RECORD"] = "\n".join([*lines, f"{information()}/RECORD,,", ""]).encode()
    with zipfile.ZipFile(pathlib.Path(wheel_directory) / name, "w", zipfile.ZIP_DEFLATED) as wheel:
        for path, content in files.items():
            wheel.writestr(path, content)
    return name


def build_sdist(sdist_directory, config_settings=None):
    raise NotImplementedError("the module is installed from a checkout: pip install .")
