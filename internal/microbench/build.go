package microbench

import (
	"context"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

//go:embed programs
var sources embed.FS

// compileFlags are those of every program; no -march, for the nodes may differ.
var compileFlags = []string{"-std=c11", "-O2", "-Wall", "-Wextra"}

// builder compiles the programs with an MPI compiler wrapper into a cache
// directory, which all nodes of a job must see.
type builder struct {
	compiler string
	dir      string
	identity string // of the compiler: its path and what it runs
}

func newBuilder(ctx context.Context, compiler, dir string) (*builder, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("cache of the benchmark programs: %w; choose another with --cache DIR", err)
	}
	// what a wrapper would run names the library and its version; a plain
	// compiler refuses -show, and its path has to do
	show, _ := exec.CommandContext(ctx, compiler, "-show").Output()
	identity := compiler
	if info, err := os.Stat(compiler); err == nil {
		identity += fmt.Sprintf(" %d %d", info.Size(), info.ModTime().UnixNano())
	}
	return &builder{compiler, dir, identity + "\n" + string(show)}, nil
}

// build returns the path of a program, compiled if the cache has none of the
// same source, compiler and flags.
func (b *builder) build(ctx context.Context, program string) (string, error) {
	target, err := b.target(program)
	if err != nil {
		return "", err
	}
	if info, err := os.Stat(target); err == nil && info.Mode().IsRegular() {
		return target, nil
	}
	scratch, err := os.MkdirTemp(b.dir, "build-")
	if err != nil {
		return "", fmt.Errorf("build %s: %w", program, err)
	}
	defer os.RemoveAll(scratch)
	if err := writeSources(scratch, program); err != nil {
		return "", fmt.Errorf("build %s: %w", program, err)
	}
	// renamed when complete: another mpitrace bench may build the same
	made := filepath.Join(scratch, program)
	args := append([]string{"-o", made}, compileFlags...)
	cmd := exec.CommandContext(ctx, b.compiler, append(args, made+".c")...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%s: %w\n%s", strings.Join(cmd.Args, " "), err, out)
	}
	return target, os.Rename(made, target)
}

// target is where the program of this source, compiler and flags lies.
func (b *builder) target(program string) (string, error) {
	sum := sha256.New()
	fmt.Fprintf(sum, "%s\n%q\n", b.identity, compileFlags)
	for _, name := range sourceFiles(program) {
		text, err := sources.ReadFile(name)
		if err != nil {
			return "", fmt.Errorf("benchmark program %s: %w", program, err)
		}
		fmt.Fprintf(sum, "%s %d\n%s", name, len(text), text)
	}
	return filepath.Join(b.dir, program+"-"+hex.EncodeToString(sum.Sum(nil))[:16]), nil
}

func sourceFiles(program string) []string {
	return []string{"programs/bench.h", "programs/" + program + ".c"}
}

func writeSources(dir, program string) error {
	for _, name := range sourceFiles(program) {
		text, err := fs.ReadFile(sources, name)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, filepath.Base(name)), text, 0o600); err != nil {
			return err
		}
	}
	return nil
}

// DefaultCache is where the programs are kept: in the user's cache directory,
// which lies in the home directory and so on every node of most clusters.
func DefaultCache() (string, error) {
	dir, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("cache of the benchmark programs: %w; choose one with --cache DIR", err)
	}
	return filepath.Join(dir, "mpitrace", "bench"), nil
}
