package main

import (
	"compress/gzip"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

// hpccInput is Debian's example with a problem that takes seconds.
func hpccInput(dir string) error {
	text, err := readMaybeGzip("/usr/share/doc/hpcc/examples/_hpccinf.txt")
	if err != nil {
		return err
	}
	small := regexp.MustCompile(`(?m)^1000 +Ns`).ReplaceAllString(text, "400 Ns")
	if small == text {
		return fmt.Errorf("the example input of hpcc has no line '1000 Ns' to make smaller")
	}
	return write(dir, "hpccinf.txt", small)
}

// readMaybeGzip reads a file of /usr/share/doc, which may be compressed.
func readMaybeGzip(path string) (string, error) {
	if text, err := os.ReadFile(path); err == nil {
		return string(text), nil
	}
	f, err := os.Open(path + ".gz")
	if err != nil {
		return "", fmt.Errorf("example input: %w", err)
	}
	defer f.Close()
	unpacked, err := gzip.NewReader(f)
	if err != nil {
		return "", fmt.Errorf("unpack %s.gz: %w", path, err)
	}
	text, err := io.ReadAll(unpacked)
	if err != nil {
		return "", fmt.Errorf("unpack %s.gz: %w", path, err)
	}
	return string(text), nil
}

const gromacsTopology = `#include "oplsaa.ff/forcefield.itp"
#include "oplsaa.ff/spce.itp"
[ system ]
water
[ molecules ]
SOL 1728
`

const gromacsRun = `integrator = md
nsteps = 100
dt = 0.002
nstlog = 20
cutoff-scheme = Verlet
rlist = 0.9
rcoulomb = 0.9
rvdw = 0.9
coulombtype = PME
tcoupl = no
gen_vel = yes
gen_temp = 300
gen_seed = 1
constraints = h-bonds
`

// gromacsInput repeats the 216 molecules that come with GROMACS.
func gromacsInput(dir string) error {
	if err := write(dir, "topol.top", gromacsTopology); err != nil {
		return err
	}
	if err := write(dir, "md.mdp", gromacsRun); err != nil {
		return err
	}
	serial := [][]string{
		{"gmx", "genconf", "-f", "/usr/share/gromacs/top/spc216.gro", "-nbox", "2", "2", "2", "-o", "water.gro"},
		{"gmx", "grompp", "-f", "md.mdp", "-c", "water.gro", "-p", "topol.top", "-o", "topol.tpr"},
	}
	for _, argv := range serial {
		cmd := exec.Command(argv[0], argv[1:]...)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "GMX_MAXBACKUP=-1")
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("%s: %w\n%s", cmd, err, out)
		}
	}
	return nil
}

// mumpsInput writes an unsymmetric five-point matrix of 30 x 30 points.
func mumpsInput(dir string) error {
	const side = 30
	var entries []string
	for y := range side {
		for x := range side {
			row := y*side + x + 1
			entries = append(entries, fmt.Sprintf("%d %d 4.0", row, row))
			for _, step := range []struct {
				dx, dy int
				value  string
			}{{1, 0, "-1.25"}, {-1, 0, "-1.0"}, {0, 1, "-1.0"}, {0, -1, "-1.0"}} {
				if inside(x+step.dx, side) && inside(y+step.dy, side) {
					column := (y+step.dy)*side + x + step.dx + 1
					entries = append(entries, fmt.Sprintf("%d %d %s", row, column, step.value))
				}
			}
		}
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%d :N\n%d :NZ\n%s\n", side*side, len(entries), strings.Join(entries, "\n"))
	for i := range side * side {
		fmt.Fprintf(&b, "%d.0\n", 1+i%7)
	}
	return write(dir, "matrix.txt", b.String())
}

// graphInput writes a grid of 24 x 24 x 24 points in Scotch's format.
func graphInput(dir string) error {
	const side = 24
	var b strings.Builder
	edges := 0
	for vertex := range side * side * side {
		x, y, z := vertex%side, vertex/side%side, vertex/side/side
		var next []string
		for _, d := range [][3]int{{1, 0, 0}, {-1, 0, 0}, {0, 1, 0}, {0, -1, 0}, {0, 0, 1}, {0, 0, -1}} {
			if inside(x+d[0], side) && inside(y+d[1], side) && inside(z+d[2], side) {
				next = append(next, strconv.Itoa(vertex+d[0]+side*(d[1]+side*d[2])))
			}
		}
		edges += len(next)
		fmt.Fprintf(&b, "%d\t%s\n", len(next), strings.Join(next, "\t"))
	}
	head := fmt.Sprintf("0\n%d\t%d\n0\t000\n", side*side*side, edges)
	return write(dir, "graph.grf", head+b.String())
}

func inside(at, side int) bool { return at >= 0 && at < side }

func write(dir, name, text string) error {
	if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
		return fmt.Errorf("write the input: %w", err)
	}
	return nil
}
