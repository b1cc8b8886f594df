package symbols

import (
	"debug/elf"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mpitrace/mpitrace/test/mpijob"
)

// program prints, for each call of where(), the offset of the place it
// returns to, as the shim would record it.
const program = `#define _GNU_SOURCE
#include <link.h>
#include <stdio.h>
static int first(struct dl_phdr_info *i, size_t n, void *p) { (void)n; *(unsigned long *)p = i->dlpi_addr; return 1; }
__attribute__((noinline)) void where(void) {
    unsigned long base = 0;
    dl_iterate_phdr(first, &base);
    printf("%lx\n", (unsigned long)__builtin_return_address(0) - base);
}
static inline __attribute__((always_inline)) void halo(void) {
    where(); /* line 11 */
}
__attribute__((noinline)) void step(int n) {
    where(); if (n) where(); /* line 14 */
    halo(); /* line 15 */
    __asm__ volatile("");
}
__attribute__((noinline, noreturn)) void last(void);
int main(void) {
    step(1);
    last();
}
extern void _exit(int);
void last(void) { where(); fflush(stdout); _exit(0); }
`

func run(t testing.TB, name string, args ...string) string {
	t.Helper()
	out, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %q: %v\n%s", name, args, err, out)
	}
	return string(out)
}

// compile builds the program and returns its path and the offsets it prints.
func compile(t *testing.T, flags ...string) (path string, offsets []uint64) {
	t.Helper()
	dir := t.TempDir()
	source := filepath.Join(dir, "app.c")
	if err := os.WriteFile(source, []byte(program), 0o600); err != nil {
		t.Fatal(err)
	}
	path = filepath.Join(dir, "app")
	run(t, "gcc", append(flags, "-o", path, source)...)
	for _, line := range strings.Fields(run(t, path)) {
		var offset uint64
		if _, err := fmt.Sscanf(line, "%x", &offset); err != nil {
			t.Fatal(err)
		}
		offsets = append(offsets, offset)
	}
	if len(offsets) != 4 {
		t.Fatalf("%d offsets, want 4", len(offsets))
	}
	return path, offsets
}

func buildID(t *testing.T, path string) string {
	t.Helper()
	file, err := elf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	id := readBuildID(file)
	if len(id) != 40 {
		t.Fatalf("%s has build id %q", path, id)
	}
	return id
}

// check compares the places of the four calls with the source.
func check(t *testing.T, r *Resolver, path, id string, offsets []uint64) {
	t.Helper()
	for i, want := range []struct {
		function string
		line     int
	}{{"step", 14}, {"step", 14}, {"halo", 11}, {"last", 24}} {
		got := r.Lookup(path, id, offsets[i])
		if got.Function != want.function || got.Line != want.line || filepath.Base(got.File) != "app.c" || got.Note != "" {
			t.Errorf("call %d at %#x: %+v, want %v", i, offsets[i], got, want)
		}
	}
	inlined := r.Lookup(path, id, offsets[2]).Inlined
	if len(inlined) != 1 || inlined[0].Function != "step" || inlined[0].Line != 15 {
		t.Errorf("halo is inlined into %+v, want step, line 15", inlined)
	}
}

// TestLines finds function and line in the kinds of executables that
// compilers make.
func TestLines(t *testing.T) {
	for _, flags := range []string{"-g -O0 -pie -fPIE", "-g -O2 -ffunction-sections -pie -fPIE", "-g -O2 -pie -fPIE", "-g -O2 -no-pie -fno-pie", "-gdwarf-4 -O2 -pie -fPIE",
		"-g -gz -O2 -pie -fPIE", "-g -O2 -flto -pie -fPIE"} {
		t.Run(flags, func(t *testing.T) {
			args := append(strings.Fields(flags), "-Wl,--build-id")
			path, offsets := compile(t, args...)
			check(t, New(Options{}), path, buildID(t, path), offsets)
			check(t, New(Options{}), path, "", offsets)
		})
	}
}

// TestSeparateDebugFile finds lines of a stripped program by build id and by
// debug link.
func TestSeparateDebugFile(t *testing.T) {
	path, offsets := compile(t, "-g", "-O2", "-Wl,--build-id")
	id := buildID(t, path)
	debug := t.TempDir()
	dir := filepath.Join(debug, ".build-id", id[:2])
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, id[2:]+".debug")
	run(t, "objcopy", "--only-keep-debug", path, file)
	run(t, "strip", path)
	check(t, New(Options{DebugDirs: []string{debug}}), path, id, offsets)

	beside := filepath.Join(filepath.Dir(path), "app.debug")
	if err := os.Rename(file, beside); err != nil {
		t.Fatal(err)
	}
	run(t, "objcopy", "--add-gnu-debuglink="+beside, path)
	check(t, New(Options{DebugDirs: []string{debug}}), path, id, offsets)

	// With the program gone the build id still finds the debug file.
	if err := os.Rename(beside, file); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	check(t, New(Options{DebugDirs: []string{debug}}), path, id, offsets)
}

// TestWithoutLines falls back to the symbol table, then to nothing, and says
// why.
func TestWithoutLines(t *testing.T) {
	path, offsets := compile(t, "-O2", "-rdynamic", "-Wl,--build-id")
	id := buildID(t, path)
	got := New(Options{}).Lookup(path, id, offsets[0])
	if got.Function != "step" || got.Line != 0 || !strings.Contains(got.Note, "compile with -g") {
		t.Errorf("no -g: %+v", got)
	}
	run(t, "strip", path)
	if got := New(Options{}).Lookup(path, id, offsets[0]); got.Function != "step" {
		t.Errorf("stripped, but exported: %+v", got)
	}
	path, offsets = compile(t, "-O2", "-Wl,--build-id", "-s")
	got = New(Options{}).Lookup(path, "", offsets[0])
	if got.Function != "" || got.Line != 0 || !strings.Contains(got.Note, "stripped") {
		t.Errorf("stripped: %+v", got)
	}
}

// TestRefuse believes no file of another build and survives what is none.
func TestRefuse(t *testing.T) {
	path, offsets := compile(t, "-g", "-Wl,--build-id")
	got := New(Options{}).Lookup(path, strings.Repeat("ab", 20), offsets[0])
	if got.Function != "" || got.Line != 0 || !strings.Contains(got.Note, "another build") {
		t.Errorf("another build: %+v", got)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Dir(path)
	for name, data := range map[string][]byte{"text": []byte("#!/bin/sh\n"), "cut": data[:len(data)/2], "empty": nil} {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, data, 0o600); err != nil {
			t.Fatal(err)
		}
		if got := New(Options{}).Lookup(file, "", offsets[0]); got.Line != 0 || got.Note == "" {
			t.Errorf("%s: %+v", name, got)
		}
	}
	for _, path := range []string{dir, "/dev/zero", filepath.Join(dir, "none")} {
		if got := New(Options{}).Lookup(path, "", 1); got.Note == "" {
			t.Errorf("%s: %+v", path, got)
		}
	}
}

// TestLearn prefers what is stored with a result.
func TestLearn(t *testing.T) {
	r := New(Options{})
	r.Learn("/gone", "aa", 16, Place{Function: "f", File: "f.c", Line: 3})
	if got := r.Lookup("/gone", "aa", 16); got.Line != 3 {
		t.Errorf("%+v", got)
	}
	if got := r.Lookup("/gone", "bb", 16); got.Line != 0 {
		t.Errorf("another build id: %+v", got)
	}
}

func TestReadable(t *testing.T) {
	for name, want := range map[string]string{
		"main": "main", "MAIN__": "main program", "__grid_MOD_exchange": "grid::exchange",
		"_ZN4grid8exchangeEv": "grid::exchange", "_ZNK1a1bEi": "a::b", "_Z4sendi": "send",
		"_ZN12_GLOBAL__N_11fEv": "(anonymous)::f", "_ZSt4moveIiEvT_": "std::move", "_Z3fooIiEvv": "foo",
		"_ZN9LAMMPS_NS4CommC1EPNS_6LAMMPSE": "LAMMPS_NS::Comm::Comm", "_ZN4gridD0Ev": "grid::~grid", "_Z4sendi.part.0": "send",
		"_ZNSt6vectorIdSaIdEE9push_backERKd": "std::vector::push_back", "_Z4sendRK1aIiE": "send", "_RNvC4grid4send": "_RNvC4grid4send",
		"_Z": "_Z", "_ZN": "_ZN", "_Z99x": "_Z99x", "memcpy@@GLIBC_2.14": "memcpy",
	} {
		if got := readable(name); got != want {
			t.Errorf("%s became %s, want %s", name, got, want)
		}
	}
}

const fortran = `module grid
contains
  subroutine exchange()
    call where()
  end subroutine
end module
program heat
  use grid
  call exchange()
  call inner()
contains
  subroutine inner()
    call where()
  end subroutine
end program
`

// TestFortran names modules and internal procedures.
func TestFortran(t *testing.T) {
	mpijob.Need(t, mpijob.Tools("gfortran", "gfortran"))
	dir := t.TempDir()
	c, _, _ := strings.Cut(program, "static inline")
	c = strings.Replace(c, "where(void)", "where_(void)", 1)
	for name, text := range map[string]string{"w.c": c, "heat.f90": fortran} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	path := filepath.Join(dir, "heat")
	run(t, "gfortran", "-g", "-O0", "-J", dir, "-o", path, filepath.Join(dir, "w.c"), filepath.Join(dir, "heat.f90"))
	for i, line := range strings.Fields(run(t, path)) {
		var offset uint64
		if _, err := fmt.Sscanf(line, "%x", &offset); err != nil {
			t.Fatal(err)
		}
		want := []Place{{Function: "grid::exchange", Line: 4}, {Function: "inner", Line: 13}}[i]
		if got := New(Options{}).Lookup(path, "", offset); got.Function != want.Function || got.Line != want.Line {
			t.Errorf("%+v, want %+v", got, want)
		}
	}
}
