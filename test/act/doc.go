// Package act runs MPI programs in act mode and without mpitrace, on both MPI
// libraries, and compares what they say: matching, every mode of sending, arrays
// of requests that are ours and the library's, probes, datatypes, errors,
// communicators, threads, Fortran, and progress of two engines in a process.
package act
