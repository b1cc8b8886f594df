package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// resultsDir holds committed measurements, one folder per day and machine.
const resultsDir = "bench/results"

// describe is the head of a measurement: machine, kernel, load, tools.
func describe(opt options) string {
	var b strings.Builder
	fmt.Fprintf(&b, "Added time, %s\n", time.Now().UTC().Format("2006-01-02 15:04 UTC"))
	fmt.Fprintf(&b, "processor %s, %s; bound to processors %s\n", processor(), kernel(), cores())
	b.WriteString(loadLine("at the start"))
	for _, tool := range opt.tools {
		fmt.Fprintf(&b, "tool %s: %s\n", tool.name, filepath.Base(tool.preload[0]))
	}
	if opt.note != "" {
		fmt.Fprintf(&b, "%s\n", opt.note)
	}
	return b.String()
}

// loadLine says how busy the machine was: figures of a busy one are no good.
func loadLine(when string) string {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return ""
	}
	return fmt.Sprintf("load average %s: %s\n", when, strings.Join(strings.Fields(string(text))[:3], " "))
}

func processor() string {
	text, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return "unknown"
	}
	model := regexp.MustCompile(`(?m)^model name\s*:\s*(.+)$`).FindSubmatch(text)
	if model == nil {
		return "unknown"
	}
	return string(model[1])
}

func kernel() string {
	var name unix.Utsname
	if err := unix.Uname(&name); err != nil {
		return "unknown kernel"
	}
	return "Linux " + unix.ByteSliceToString(name.Release[:])
}

// save writes the table and the raw figures.
func save(opt options, table, raw string) error {
	machine := opt.machine
	if machine == "" {
		machine = strings.ToLower(processor())
	}
	machine = strings.Trim(regexp.MustCompile(`[^A-Za-z0-9]+`).ReplaceAllString(machine, "-"), "-")
	dir := filepath.Join(resultsDir, time.Now().UTC().Format("2006-01-02")+"-"+machine)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("folder for the figures: %w", err)
	}
	remark := "# mpi, variant, loop, then ns per call (start_...: per process) of each repetition;\n" +
		"# 4ranks_...: ns of each rank in each repetition\n"
	for name, text := range map[string]string{"overhead.txt": table, "overhead-raw.txt": remark + raw} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			return fmt.Errorf("save the figures: %w", err)
		}
	}
	fmt.Printf("saved in %s\n", dir)
	return nil
}
