#%Module1.0
# mpitrace for Environment Modules: module use PREFIX/share/mpitrace/modulefiles,
# or a symbolic link to this file in a directory of yours. A copy of this file
# elsewhere needs the prefix in place of the next four lines: set prefix /opt/mpitrace
set file [file dirname [file normalize $ModulesCurrentModulefile/_]]
if {![regexp {^(.*)/share/mpitrace/modulefiles/} $file -> prefix]} {
    error "$file is not in share/mpitrace/modulefiles: set prefix in this file"
}

proc ModulesHelp {} {
    puts stderr "Profiler of MPI programs: mpitrace run -- mpirun ..., mpitrace report."
    puts stderr "By hand: mpirun -x LD_PRELOAD=\$MPITRACE_SHIM ... (see man mpitrace)"
}
module-whatis "profiler of MPI programs that need not be rebuilt"

conflict mpitrace
setenv MPITRACE_ROOT $prefix
setenv MPITRACE_SHIM $prefix/lib/mpitrace/libmpishim.so
prepend-path PATH $prefix/bin
prepend-path MANPATH $prefix/share/man
# an empty element stands for the pages of the system
append-path MANPATH {}
