package report

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
)

// symbolsName is the file in a result directory that keeps source lines.
const symbolsName = "symbols.json"

// WriteSymbols looks up the source lines of a result directory and keeps them
// there, so that a later rebuild of the program does not lose them. Places
// that have no line are left out: the programs may be found another day.
func WriteSymbols(dir string) error {
	r, err := Load(dir, Options{placesOnly: true})
	if err != nil {
		return err
	}
	r.Resolve()
	file := r.symbolsFile()
	if len(file.Modules) == 0 {
		return nil
	}
	text, err := json.MarshalIndent(file, "", " ")
	if err != nil {
		return fmt.Errorf("%s: %w", symbolsName, err)
	}
	return writeWhole(filepath.Join(dir, symbolsName), append(text, '\n'))
}

// symbolsFile is the lines of all places that the report knows.
func (r *Report) symbolsFile() *symbolsFile {
	file := &symbolsFile{Schema: Schema}
	index := map[Module]int{}
	seen := map[siteKey]bool{}
	for _, s := range r.allSites() {
		place := siteKey{offset: s.key.offset, module: s.key.module}
		if s.Line == 0 || seen[place] {
			continue
		}
		seen[place] = true
		module := Module{s.Module, s.BuildID}
		i, ok := index[module]
		if !ok {
			i = len(file.Modules)
			index[module] = i
			file.Modules = append(file.Modules, symbolsModule{Path: s.Module, BuildID: s.BuildID})
		}
		file.Modules[i].Places = append(file.Modules[i].Places,
			symbolsPlace{Offset: s.Offset, Function: s.Symbol, File: s.File, Line: s.Line, Inlined: s.Inlined})
	}
	return file
}

// writeWhole writes a file under a temporary name first.
func writeWhole(path string, data []byte) error {
	temporary := filepath.Join(filepath.Dir(path), "."+filepath.Base(path))
	if err := os.WriteFile(temporary, data, 0o644); err != nil {
		return err
	}
	if err := os.Rename(temporary, path); err != nil {
		os.Remove(temporary)
		return err
	}
	return nil
}
