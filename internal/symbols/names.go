package symbols

import (
	"strconv"
	"strings"
)

// readable makes the name of a symbol readable where that is simple: Fortran
// modules, and C++ names without templates. Others stay as they are.
func readable(name string) string {
	name, _, _ = strings.Cut(name, "@")
	if name == "MAIN__" {
		return "main program"
	}
	if module, proc, ok := strings.Cut(strings.TrimPrefix(name, "__"), "_MOD_"); ok && strings.HasPrefix(name, "__") {
		return module + "::" + proc
	}
	if parts, ok := itanium(name); ok {
		return strings.Join(parts, "::")
	}
	return name
}

// itanium splits a C++ name into its parts if it consists of plain
// identifiers only.
func itanium(name string) ([]string, bool) {
	rest, ok := strings.CutPrefix(name, "_Z")
	if !ok {
		return nil, false
	}
	rest, nested := strings.CutPrefix(rest, "N")
	if nested {
		rest = strings.TrimPrefix(rest, "K") // a const member function
	}
	var parts []string
	for {
		digits := 0
		for digits < len(rest) && rest[digits] >= '0' && rest[digits] <= '9' {
			digits++
		}
		length, err := strconv.Atoi(rest[:digits])
		if err != nil || length <= 0 || length > len(rest)-digits {
			return nil, false
		}
		part := rest[digits : digits+length]
		if strings.HasPrefix(part, "_GLOBAL__N") {
			part = "(anonymous)"
		}
		parts = append(parts, part)
		rest = rest[digits+length:]
		if !nested {
			return parts, !strings.HasPrefix(rest, "I") // I begins template arguments
		}
		if strings.HasPrefix(rest, "E") {
			return parts, true
		}
	}
}
