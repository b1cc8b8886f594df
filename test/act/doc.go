// Package act runs MPI programs in act mode and without mpitrace, on both MPI
// libraries, and compares what they say: matching, every mode of sending, arrays
// of requests that are ours and the library's, probes, datatypes, errors,
// communicators, threads, Fortran, progress of two engines in a process, handlers that
// do not come back, memory that is changed while a message uses it, and random
// programs, whose digest must be the same by every protocol, threshold, device and
// number of ranks, with faults in the device too (-long: by the million).
package act
