package symbols

import (
	"strings"

	"github.com/ianlancetaylor/demangle"
)

// longestName is the longest name that is worth making readable.
const longestName = 4096

// readable makes the name of a symbol readable: Fortran modules, and C++
// without parameters and template arguments. Others stay as they are.
func readable(name string) string {
	name, _, _ = strings.Cut(name, "@")
	if name == "MAIN__" {
		return "main program"
	}
	if module, proc, ok := strings.Cut(strings.TrimPrefix(name, "__"), "_MOD_"); ok && strings.HasPrefix(name, "__") {
		return module + "::" + proc
	}
	if !strings.HasPrefix(name, "_Z") || len(name) > longestName {
		return name
	}
	text := demangle.Filter(name, demangle.NoParams, demangle.NoTemplateParams, demangle.NoEnclosingParams, demangle.NoClones)
	return strings.ReplaceAll(text, "(anonymous namespace)", "(anonymous)")
}
