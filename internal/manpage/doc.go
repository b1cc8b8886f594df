// Package manpage writes the manual pages of a command tree, in the man(7)
// macros that groff and mandoc both know, from the help texts of the commands:
// one page for each command that is not hidden, mpitrace-run(1) for
// "mpitrace run". It must not know what any command does.
package manpage
