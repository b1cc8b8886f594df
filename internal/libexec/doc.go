// Package libexec finds the programs in C that belong to mpitrace, which is
// itself built without C. It must not know what they do.
package libexec
