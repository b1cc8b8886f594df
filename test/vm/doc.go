// Package vm boots small virtual machines that have what a test needs and the
// machine it runs on lacks: RDMA devices, as Linux makes them of any network
// interface (Soft-RoCE, the module rdma_rxe). A guest runs Debian's kernel on the
// files of its host: its root is the host's, read-only, under a layer in memory.
// So what a test has built runs there under the same path, with the same
// libraries, and nothing that a guest does is left behind.
//
//	g := vm.Boot(t, vm.Options{})      // rxe0 (10.77.0.1) and rxe1 (10.77.1.1)
//	out := g.Run(t, time.Minute, "ibv_devinfo")
//
// Two guests of [BootPair] are joined by two networks; rxe0 of each is at its end of
// the one, at 10.78.0.1 and 10.78.0.2, rxe1 of the other, at 10.78.1.1 and 10.78.1.2.
//
// A guest takes its processors from kvm where that works, otherwise from qemu's
// emulation: 4 to 9 s from the start of qemu to the first command. It is a place
// for functions, not for speed: one core of an emulated guest moves 75 MB/s.
//
// What it needs of Debian: qemu-system-x86, iproute2, ibverbs-providers,
// xz-utils, and the network for the kernel's package, once; that is kept in
// build/vm. Where qemu is not installed a test is skipped, in CI it fails.
//
// The program in guest/ is the first process of a guest; wire/ is what it and
// this package say to each other. The package must not know what is run.
package vm
