package symbols

import (
	"fmt"
	"sync"
)

// Place is what is known of one address. Empty fields are unknown.
type Place struct {
	Function string  // with its namespace or Fortran module: "grid::exchange"
	File     string  // as the compiler recorded it, made absolute where it says how
	Line     int     // 0 if unknown
	Inlined  []Frame // callers into which Function was inlined, innermost first
	Note     string  // why something is missing, empty if nothing is
}

// Frame is a function and the line in it that leads further in.
type Frame struct {
	Function string
	File     string
	Line     int
}

// Options of New.
type Options struct {
	// DebugDirs are the roots of separate debug files; default /usr/lib/debug.
	DebugDirs []string
}

// Resolver looks places up. It keeps what it has read of each module. It may
// be used by several goroutines.
type Resolver struct {
	debugDirs []string

	mu      sync.Mutex // guards what follows
	modules map[moduleKey]*module
	places  map[placeKey]Place
}

type moduleKey struct{ path, buildID string }

type placeKey struct {
	moduleKey
	offset uint64
}

// New makes a Resolver.
func New(options Options) *Resolver {
	if options.DebugDirs == nil {
		options.DebugDirs = []string{"/usr/lib/debug"}
	}
	return &Resolver{debugDirs: options.DebugDirs, modules: map[moduleKey]*module{}, places: map[placeKey]Place{}}
}

// Lookup finds the call that returns to offset, an ELF virtual address in the
// module. buildID is that of the program that ran, in hexadecimal; empty if it
// had none, then the file is believed to be the same.
func (r *Resolver) Lookup(path, buildID string, offset uint64) Place {
	r.mu.Lock()
	defer r.mu.Unlock()
	key := placeKey{moduleKey{path, buildID}, offset}
	if place, ok := r.places[key]; ok {
		return place
	}
	m, ok := r.modules[key.moduleKey]
	if !ok {
		m = r.load(path, buildID)
		r.modules[key.moduleKey] = m
	}
	place := Place{Note: m.note}
	if offset > 0 {
		// The call lies before the address it returns to: at the end of a
		// function, or of a line, that address is already another's.
		place = m.lookup(offset - 1)
	}
	r.places[key] = place
	return place
}

// Learn tells the Resolver a place that was looked up earlier, as stored with
// a result; Lookup prefers it.
func (r *Resolver) Learn(path, buildID string, offset uint64, place Place) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.places[placeKey{moduleKey{path, buildID}, offset}] = place
}

// guard turns a panic into an error: debug/dwarf and debug/elf are careful
// with damaged files, but the files here may be anybody's.
func guard(what string, f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%s: damaged debug information: %v", what, p)
		}
	}()
	return f()
}
