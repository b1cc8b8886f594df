-- mpitrace for Lmod: module use PREFIX/share/mpitrace/modulefiles, or a symbolic
-- link to this file in a directory of yours. A copy of this file elsewhere needs
-- the prefix in place of the next six lines: local prefix = "/opt/mpitrace"
local file = myFileName()
local inside = "(.*)/share/mpitrace/modulefiles/"
local prefix = file:match(inside) or subprocess("readlink -f '" .. file .. "'"):match(inside)
if not prefix then
    LmodError(file .. " is not in share/mpitrace/modulefiles: set prefix in this file")
end

help([[
Profiler of MPI programs: mpitrace run -- mpirun ..., mpitrace report.
By hand: mpirun -x LD_PRELOAD=$MPITRACE_SHIM ... (see man mpitrace)
]])
whatis("profiler of MPI programs that need not be rebuilt")

setenv("MPITRACE_ROOT", prefix)
setenv("MPITRACE_SHIM", pathJoin(prefix, "lib/mpitrace/libmpishim.so"))
prepend_path("PATH", pathJoin(prefix, "bin"))
prepend_path("MANPATH", pathJoin(prefix, "share/man"))
-- an empty element stands for the pages of the system
append_path("MANPATH", "")
