# Copyright the mpitrace authors
#
# SPDX-License-Identifier: BSD-3-Clause

import re

from spack_repo.builtin.build_systems.makefile import MakefilePackage

from spack.package import *


class Mpitrace(MakefilePackage):
    """Profiler of MPI programs that need not be rebuilt: one library, preloaded
    into the ranks, counts and times every MPI call, and reports say who waits
    for whom and where in the source."""

    homepage = "https://github.com/mpitrace/mpitrace"
    git = "https://github.com/mpitrace/mpitrace.git"

    executables = ["^mpitrace$"]

    license("BSD-3-Clause")

    version("main", branch="main")

    variant("debug", default=False, description="Keep the debug information of the library")

    depends_on("c", type="build")
    depends_on("go@1.26:", type="build")
    depends_on("gmake", type="build")

    # It works with every MPI that is found at run time, so it depends on none.
    conflicts("platform=darwin")
    conflicts("platform=windows")

    @classmethod
    def determine_version(cls, exe):
        output = Executable(exe)("--version", output=str, error=str)
        match = re.search(r"mpitrace version (\S+)", output)
        return match.group(1) if match else None

    def setup_build_environment(self, env: EnvironmentModifications) -> None:
        # or Spack could not remove the modules that Go puts into the stage
        env.set("GOFLAGS", "-modcacherw")

    def setup_run_environment(self, env: EnvironmentModifications) -> None:
        env.set("MPITRACE_ROOT", self.prefix)
        env.set("MPITRACE_SHIM", join_path(self.prefix.lib, "mpitrace", "libmpishim.so"))

    def build(self, spec, prefix):
        make("build", f"CC={spack_cc}")

    def install(self, spec, prefix):
        # ":" in place of strip leaves the library as it is
        strip = ["STRIP=:"] if spec.satisfies("+debug") else []
        make("install", f"PREFIX={prefix}", f"CC={spack_cc}", *strip)

    def check(self):
        """make test needs Debian and both MPIs: see test_version instead."""

    def test_version(self):
        """the installed command finds its library"""
        mpitrace = Executable(self.prefix.bin.mpitrace)
        assert "mpitrace version" in mpitrace("--version", output=str.split, error=str.split)
        assert "libmpishim.so loads" in mpitrace(
            "doctor", output=str.split, error=str.split, fail_on_error=False
        )
