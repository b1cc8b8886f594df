// Package fakempi tests how the shim attaches, with MPI libraries made for the
// purpose: one that nobody knows, one that lacks a function, and a translation
// layer that loads a second MPI behind the first. No real MPI is needed.
package fakempi
