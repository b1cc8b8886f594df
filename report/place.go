package report

import (
	"fmt"
	"path"
	"slices"
)

// resolve looks up the source line of a site, once.
func (r *Report) resolve(s *Site) {
	if s.resolved {
		return
	}
	s.resolved = true
	for _, f := range at(r.stacks, int(s.key.stack)-1) {
		s.Stack = append(s.Stack, r.frameText(f))
	}
	switch {
	case s.Other:
		s.Note = "the table of call sites was full"
		return
	case s.Module == "":
		s.Note = "the address lies in no file that was known"
		return
	}
	place := r.resolver.Lookup(s.Module, s.BuildID, s.Offset)
	s.Symbol, s.File, s.Line, s.Note = clean(place.Function), clean(place.File), place.Line, clean(place.Note)
	for _, f := range place.Inlined {
		s.Inlined = append(s.Inlined, clean(f.Function))
	}
}

// Resolve looks up the source lines of all sites. JSON and CSV need them all,
// the text only those that it shows.
func (r *Report) Resolve() {
	for _, s := range r.allSites() {
		r.resolve(s)
	}
}

// allSites is the places of all that the report knows; some come twice.
func (r *Report) allSites() []*Site {
	out := slices.Clone(r.Sites)
	for i := range r.Stuck {
		out = append(out, r.Stuck[i].Site)
	}
	for _, rank := range r.Ranks {
		for i := range rank.Current {
			out = append(out, rank.Current[i].Site)
		}
	}
	for _, a := range r.Arrivals {
		out = append(append(out, a.Site), a.others...)
	}
	for _, o := range r.Overlap {
		out = append(out, o.Site)
	}
	return out
}

func (r *Report) frameText(f frame) string {
	module := at(r.modules, int(f.module)-1)
	if module.Path == "" {
		return fmt.Sprintf("%#x", f.offset)
	}
	place := r.resolver.Lookup(module.Path, module.BuildID, f.offset)
	if place.Line > 0 {
		return fmt.Sprintf("%s (%s:%d)", clean(place.Function), path.Base(clean(place.File)), place.Line)
	}
	text := fmt.Sprintf("%s+%#x", path.Base(module.Path), f.offset)
	if place.Function != "" {
		text = clean(place.Function) + " (" + text + ")"
	}
	return text
}

// location is file and line of a site, or else its module and offset.
func (r *Report) location(s *Site) string {
	r.resolve(s)
	switch {
	case s.Other:
		return "(other places)"
	case s.Line > 0:
		return fmt.Sprintf("%s:%d", path.Base(s.File), s.Line)
	case s.Module == "":
		return fmt.Sprintf("%#x", s.Offset)
	}
	return fmt.Sprintf("%s+%#x", path.Base(s.Module), s.Offset)
}

// ruleNames are those that a rank knows a site by (c/act/place.c): its symbol
// table has no inlined functions.
func (r *Report) ruleNames(s *Site) []string {
	r.resolve(s)
	var names []string
	if function := s.Symbol; function != "" {
		if n := len(s.Inlined); n > 0 {
			function = s.Inlined[n-1]
		}
		names = append(names, function)
	}
	if s.Module != "" {
		names = append(names, fmt.Sprintf("%s+%#x", path.Base(s.Module), s.Offset))
	}
	return names
}

// symbol is the function around a site, with that it was inlined into.
func (r *Report) symbol(s *Site) string {
	r.resolve(s)
	text := s.Symbol
	if len(s.Inlined) > 0 {
		text += " in " + s.Inlined[len(s.Inlined)-1]
	}
	if s.Callback {
		text += " (callback)"
	}
	if s.Binding {
		text += " (binding of MPI)"
	}
	return text
}

// place is location and function in one.
func (r *Report) place(s *Site) string {
	if symbol := r.symbol(s); symbol != "" {
		return r.location(s) + " (" + symbol + ")"
	}
	return r.location(s)
}

// Location is file and line of a site, or else its module and offset.
func (r *Report) Location(s *Site) string { return r.location(s) }
