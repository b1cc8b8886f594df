package launch

import (
	"debug/elf"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
)

const preloadVariable = "LD_PRELOAD"

// JoinPreload puts shim in front of the libraries that the user preloads
// already, an LD_PRELOAD value, separated by colons or blanks; but behind the
// address sanitizer, which ends a program where it does not come first. Another
// shim is left out.
func JoinPreload(shim, user string) string {
	var first, rest []string
	for _, name := range strings.FieldsFunc(user, func(r rune) bool { return r == ':' || r == ' ' }) {
		switch {
		case name == shim || isShim(name): // shim may have any name (--shim)
		case strings.Contains(filepath.Base(name), "asan"):
			first = append(first, name)
		default:
			rest = append(rest, name)
		}
	}
	return strings.Join(slices.Concat(first, []string{shim}, rest), ":")
}

const sanitizerVariable = "ASAN_OPTIONS"

// AllowSanitizer returns the setting that a program with the address sanitizer needs to
// accept a library in front of the sanitizer's own, added to what env has; empty if no
// program among the words of a command has one. An error says that the command gives the
// ranks such options of its own.
func AllowSanitizer(words, env []string) (setting string, err error) {
	found := false
	eachProgram(words, func(path string, root *elf.File) {
		eachNeeded(path, root, func(name string, _ *elf.File) bool {
			found = found || strings.Contains(filepath.Base(name), "asan")
			return !found
		})
	})
	if !found {
		return "", nil
	}
	const allow = "verify_asan_link_order=0"
	for _, word := range words {
		if strings.Contains(word, allow) {
			return "", nil
		}
		if strings.Contains(word, sanitizerVariable) {
			return "", fmt.Errorf("%s: add %s to %s there, or the address sanitizer will end the ranks", word, allow, sanitizerVariable)
		}
	}
	options, _ := lookup(env, sanitizerVariable)
	if options != "" {
		options += ":"
	}
	return sanitizerVariable + "=" + options + allow, nil
}

// checkPreload refuses a path that LD_PRELOAD cannot hold.
func checkPreload(shim string) error {
	if strings.ContainsAny(shim, ": ,;\t\n") {
		return fmt.Errorf("%s: LD_PRELOAD cannot name a path with a blank, colon, comma or semicolon: install mpitrace elsewhere or make a symbolic link and use --shim", shim)
	}
	return nil
}

// lookup returns the value of a variable in an environment; the last one
// counts, as for exec.
func lookup(env []string, name string) (string, bool) {
	for i := len(env) - 1; i >= 0; i-- {
		if value, ok := strings.CutPrefix(env[i], name+"="); ok {
			return value, true
		}
	}
	return "", false
}

// with returns a copy of env in which name has the value, once, at its first
// place or at the end.
func with(env []string, name, value string) []string {
	out := make([]string, 0, len(env)+1)
	done := false
	for _, entry := range env {
		if !strings.HasPrefix(entry, name+"=") {
			out = append(out, entry)
		} else if !done {
			out = append(out, name+"="+value)
			done = true
		}
	}
	if !done {
		out = append(out, name+"="+value)
	}
	return out
}
