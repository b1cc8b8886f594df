// Package packagetest tests what users install, from make install to the deb
// and the rpm: that a copy works wherever it lies, that shells complete and
// manual pages render, that packages need what they say, build the same twice
// and leave nothing behind. What takes minutes, root and the network (a chroot
// of Debian, building twice) runs with MPITRACE_TEST_PACKAGE=1, as
// make test-package does. It must not test what mpitrace measures.
package packagetest
