package passtable

import (
	"fmt"
	"os"
	"slices"
)

// alone is what each rank of solo.c does.
func alone() []expectation {
	return []expectation{{
		calls: counts{"Init": 1, "Comm_rank": 1, "Sendrecv": 10, "Allreduce": 3, "Finalize": 1},
		bytes: counts{"Sendrecv": 80},
	}}
}

// many is what each rank of many.c does.
func many() []expectation {
	want := expectation{
		calls: counts{
			"Init": 1, "Comm_rank": 1025, "Comm_dup": 200, "Barrier": 200, "Comm_free": 200, "Type_contiguous": 500, "Type_commit": 500,
			"Sendrecv": 500, "Type_free": 500, "Irecv": 3000, "Isend": 3000, "Waitall": 1, "Finalize": 1,
		},
		bytes: counts{"Sendrecv": 2 * 501000, "Irecv": 12000, "Isend": 12000},
	}
	return pair(want, 3500, 501000+12000)
}

// ownMounts runs a command that may mount file systems for itself. Whoever is
// not root becomes it in a user namespace.
func ownMounts() []string {
	if os.Geteuid() == 0 {
		return []string{"unshare", "-m"}
	}
	return []string{"unshare", "-rm"}
}

// inNamespace runs a command in a mount namespace of its own after the setup.
func inNamespace(setup string) []string {
	return append(ownMounts(), "/bin/sh", "-c", setup+` && exec "$@"`, "namespace")
}

// full is a /dev/shm of 64 KiB without a free byte.
const full = `mount -t tmpfs -o size=64k tmpfs /dev/shm && { head -c 65536 /dev/zero >/dev/shm/full; } 2>/dev/null`

// onlyRank takes the shim from all other ranks.
func onlyRank(rank string) string {
	return `[ "$rank" = ` + rank + ` ] || unset LD_PRELOAD`
}

// missing requires the ranks without the shim to be named.
func missing(ranks ...int) func(*harness, *report) []string {
	return func(_ *harness, rep *report) []string {
		if !slices.Equal(rep.Job.MissingRanks, ranks) {
			return []string{fmt.Sprintf("missing ranks: got %v, want %v", rep.Job.MissingRanks, ranks)}
		}
		return nil
	}
}

func environmentRows() []row {
	want := basicWant()
	signals := expectation{calls: counts{"Init": 1, "Comm_rank": 1, "Sendrecv": 20000, "Finalize": 1}}
	user := expectation{calls: counts{"Init": 1, "Comm_rank": 3, "Sendrecv": 12, "Barrier": 3, "Finalize": 1}}
	host := expectation{calls: counts{"Init": 1, "Comm_rank": 2, "Sendrecv": 12, "Finalize": 1}}
	rows := []row{
		{
			name: "signals", what: "the application's own SIGSEGV handler, sigaltstack, SIGPROF timer",
			program: "signals.c", ranks: 2, want: pair(signals, 20000, 80000),
		},
		{
			name: "plugin", what: "a plug-in that calls MPI, loaded and unloaded three times",
			program: "plugin_user.c", args: []string{"@plugin.c"}, ranks: 2, want: pair(user, 12, 48),
		},
		{
			name: "plugin_with_mpi", what: "a plug-in that brings MPI with it (RTLD_LOCAL), unloaded at the end",
			program: "plugin_host.c", args: []string{"@plugin.c"}, ranks: 2, want: pair(host, 12, 48),
		},
		{name: "address_space", what: "`ulimit -v 250000`", program: "basic.c", before: "ulimit -v 250000", ranks: 2, want: want},
		{
			name: "file_size", what: "`ulimit -f 64` (32 KiB): private memory, one warning",
			program: "solo.c", before: "ulimit -f 64", ranks: 1, want: alone(), noSharedMemory: true, warning: "private memory",
		},
		{
			name: "plain", what: "`LD_PRELOAD` and not one MPITRACE_ variable: one line says where the result is",
			program: "basic.c", ranks: 2, want: want, plain: true, warning: "result in",
		},
		{
			name: "chdir", what: "... of a program that changes its directory: the result is where it was started",
			program: "solo.c", args: []string{"/"}, ranks: 2, want: alone(), plain: true, warning: "result in",
		},
		{
			name: "title", what: "a title written over arguments and environment: settings stay what they were",
			program: "title.c", ranks: 2, want: []expectation{{calls: once("Init", "Comm_rank", "Barrier", "Finalize")}},
		},
		{
			name: "clock", what: "`MPITRACE_CLOCK=vdso`",
			program: "basic.c", env: []string{"MPITRACE_CLOCK=vdso"}, ranks: 2, want: want,
		},
		{
			name: "many", what: "1,025 call sites, 200 communicators, 500 datatypes, 6,000 requests",
			program: "many.c", ranks: 2, want: many(),
		},
		{
			name: "many_bounded", what: "... in a segment that may not grow",
			program: "many.c", env: []string{"MPITRACE_SEGMENT_BYTES=256K", "MPITRACE_SEGMENT_BYTES_MAX=256K"}, ranks: 2, want: many(),
		},
		{
			name: "subset_0", what: "the shim on rank 0 only",
			program: "basic.c", before: onlyRank("0"), ranks: 2, want: []expectation{want[0], {}}, check: missing(1),
		},
		{
			name: "subset_1", what: "the shim on rank 1 only",
			program: "basic.c", before: onlyRank("1"), ranks: 2, want: []expectation{{}, want[1]}, check: missing(0),
		},
	}
	return append(rows, directoryRows()...)
}

// directoryRows are those of places that cannot be written.
func directoryRows() []row {
	return []row{
		{
			name: "shm_full", what: "a full /dev/shm", program: "solo.c", ranks: 1, want: alone(),
			wrap: inNamespace(full), noSharedMemory: true, defaultSegments: true, env: []string{"TMPDIR=$DIR"},
		},
		{
			name: "no_memory_file", what: "a full /dev/shm and no TMPDIR: private memory, one warning", program: "solo.c", ranks: 1, want: alone(),
			wrap: inNamespace(full + " && mount -t tmpfs -o size=4k,ro tmpfs /mnt"), noSharedMemory: true, defaultSegments: true,
			before: "export TMPDIR=/mnt", warning: "private memory",
		},
		{
			name: "segment_dir", what: "a segment directory that cannot be made: one warning", program: "basic.c", ranks: 2, want: basicWant(),
			env: []string{"MPITRACE_SEGMENT_DIR=/proc/mpitrace"}, warning: "/proc/mpitrace",
		},
		{
			name: "output", what: "a result directory that cannot be made: one warning, `mpitrace collect` has the data", program: "basic.c", ranks: 2,
			want: basicWant(), killed: true, env: []string{"MPITRACE_OUTPUT=/proc/mpitrace"}, warning: "/proc/mpitrace",
		},
		{
			name: "output_full", what: "a result directory without room for the result: one warning, `mpitrace collect` has the data", program: "basic.c", ranks: 2,
			want: basicWant(), killed: true, warning: "No space left on device", env: []string{"MPITRACE_OUTPUT=$DIR/small/result"},
			wrap: inNamespace(`mkdir "$PASSTABLE_DIR/small" && mount -t tmpfs -o size=4k tmpfs "$PASSTABLE_DIR/small"`),
		},
		{
			name: "current_dir", what: "... the default one below a directory that cannot be written", program: "basic.c", ranks: 2,
			wrap: []string{"/bin/sh", "-c", `cd /proc && exec "$@"`, "cd"},
			want: basicWant(), killed: true, env: []string{"MPITRACE_OUTPUT="}, warning: "/proc/mpitrace-",
		},
		{
			name: "unknown_setting", what: "an unknown MPITRACE_ variable: one warning", program: "basic.c", ranks: 2, want: basicWant(),
			env: []string{"MPITRACE_NONSENSE=1"}, warning: "MPITRACE_NONSENSE",
		},
		{
			name: "off", what: "`MPITRACE_MODE=off`: nothing is measured", program: "basic.c", ranks: 2, nothing: true, env: []string{"MPITRACE_MODE=off"},
		},
	}
}
