# SPDX-License-Identifier: MIT
"""pack_wheel.py PACKAGE FOLDER: packs the package of a build tree as a wheel for this machine and prints its path."""
import os
import re
import sys
import sysconfig
import zipfile

package, folder = sys.argv[1:]
with open(os.path.join(package, "_layout.py"), encoding="utf-8") as f:
    version = re.search(r'^VERSION = "(.+)"', f.read(), re.M)[1]
tag = "py3-none-" + re.sub("[-.]", "_", sysconfig.get_platform())
path, info = os.path.join(folder, f"qkv-{version}-{tag}.whl"), f"qkv-{version}.dist-info"
with zipfile.ZipFile(path, "w") as wheel:
    for name in sorted(os.listdir(package)):
        if name != "__pycache__":
            wheel.write(os.path.realpath(os.path.join(package, name)), "qkv/" + name)
    wheel.writestr(info + "/METADATA", f"Metadata-Version: 2.1\nName: qkv\nVersion: {version}\n")
    wheel.writestr(info + "/WHEEL", f"Wheel-Version: 1.0\nGenerator: pack_wheel\nRoot-Is-Purelib: false\nTag: {tag}\n")
    wheel.writestr(info + "/RECORD", "".join(f"{name},,\n" for name in [*wheel.namelist(), info + "/RECORD"]))
print(path)
