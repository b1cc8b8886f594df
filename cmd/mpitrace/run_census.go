package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/mpitrace/mpitrace/segment"
)

// census counts what a result holds.
type census struct {
	ranks, nodes int
	expected     int   // sum of the sizes of all MPI_COMM_WORLDs
	missing      []int // ranks without data
	starting     bool  // a process died before it knew its rank
	unclean      bool  // a process did not end by exit() after MPI_Finalize: others may have been killed on their way out
}

// takeCensus counts the ranks in a result directory. That there is none is no
// error.
func takeCensus(dir string) (census, error) {
	type world struct {
		size  int
		ranks map[int]bool
	}
	worlds := map[string]*world{}
	nodes := map[string]bool{}
	var c census
	_, err := segment.WalkResult(dir, func(s *segment.Segment) error {
		nodes[s.Header.NodeName()] = true
		id := s.Header.WorldID()
		if worlds[id] == nil {
			worlds[id] = &world{ranks: map[int]bool{}}
		}
		w := worlds[id]
		w.size = max(w.size, int(s.Header.WorldSize))
		c.starting = c.starting || s.Header.WorldSize == 0 && s.Header.Flags&segment.HeaderFlagSessions == 0
		c.unclean = c.unclean || s.Header.State != segment.StateExited
		if s.Header.WorldRank >= 0 {
			w.ranks[int(s.Header.WorldRank)] = true
		}
		c.ranks++
		return nil
	})
	switch {
	case errors.Is(err, segment.ErrNoResult), errors.Is(err, fs.ErrNotExist):
		return census{}, nil
	case err != nil:
		return census{}, err
	}
	c.nodes = len(nodes)
	for _, w := range worlds {
		c.expected += w.size
		for rank := range w.size {
			if !w.ranks[rank] {
				c.missing = append(c.missing, rank)
			}
		}
	}
	return c, nil
}

// complete tells that every rank of every world has data.
func (c census) complete() bool { return c.ranks > 0 && len(c.missing) == 0 && !c.starting }

// line is the last line of mpitrace run.
func (c census) line(dir, job string, living int) string {
	ranks := plural(c.ranks, "rank")
	if c.ranks < c.expected {
		ranks = fmt.Sprintf("%d of %d ranks", c.ranks, c.expected)
	}
	if len(c.missing) > 0 {
		ranks += ", no data of " + someRanks(c.missing)
	}
	if living > 0 {
		return fmt.Sprintf("result in %s (%s, %s; %s still run: when they have ended, mpitrace collect --job %s -o %s); see: mpitrace report %s",
			dir, ranks, plural(c.nodes, "node"), plural(living, "process"), job, dir, dir)
	}
	return fmt.Sprintf("result in %s (%s, %s); see: mpitrace report %s", dir, ranks, plural(c.nodes, "node"), dir)
}

// someRanks names the first few ranks.
func someRanks(ranks []int) string {
	slices.Sort(ranks)
	const most = 4
	var names []string
	for _, rank := range ranks[:min(most, len(ranks))] {
		names = append(names, strconv.Itoa(rank))
	}
	text := "rank " + strings.Join(names, ", ")
	if len(ranks) > most {
		text += ", ..."
	}
	return text
}

func plural(n int, what string) string {
	switch {
	case n == 1:
		return "1 " + what
	case strings.HasSuffix(what, "s"):
		return strconv.Itoa(n) + " " + what + "es"
	}
	return strconv.Itoa(n) + " " + what + "s"
}

// shortPath is a path relative to the working directory if it lies below it,
// quoted for a shell if need be.
func shortPath(path string) string {
	if here, err := os.Getwd(); err == nil {
		if relative, err := filepath.Rel(here, path); err == nil && !strings.HasPrefix(relative, "..") {
			path = relative
		}
	}
	if strings.ContainsAny(path, " \t'\"\\$`!&;()<>|*?[]{}~#") {
		return "'" + strings.ReplaceAll(path, "'", `'\''`) + "'"
	}
	return path
}
