package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// keyring signs Debian's archive; part of every Debian.
const keyring = "/usr/share/keyrings/debian-archive-keyring.gpg"

// fetchSuite brings the source of the suite into cache/source, unless it is
// there, and returns that folder. It keeps package lists of its own, so that
// it needs neither root nor deb-src lines in the system's configuration.
func fetchSuite(cache, mirror string) (string, error) {
	source := filepath.Join(cache, "source")
	if _, err := os.Stat(filepath.Join(source, "configure")); err == nil {
		return source, nil
	}
	archive, err := findArchive(cache)
	if err != nil {
		if err := aptSource(cache, mirror); err != nil {
			return "", err
		}
		if archive, err = findArchive(cache); err != nil {
			return "", err
		}
	}
	partial := source + ".partial"
	if err := os.RemoveAll(partial); err != nil {
		return "", fmt.Errorf("clear %s: %w", partial, err)
	}
	if err := os.MkdirAll(partial, 0o755); err != nil {
		return "", fmt.Errorf("make %s: %w", partial, err)
	}
	err = quietly(cache, "tar", "-xJf", archive, "-C", partial, "--no-same-owner",
		"--strip-components=3", "--wildcards", "mpich-*/test/mpi/*")
	if err != nil {
		return "", err
	}
	if err := enableF08(filepath.Join(partial, "configure")); err != nil {
		return "", err
	}
	return source, os.Rename(partial, source)
}

func findArchive(cache string) (string, error) {
	found, err := filepath.Glob(filepath.Join(cache, "mpich_*.orig.tar.xz"))
	if err != nil || len(found) == 0 {
		return "", fmt.Errorf("%s holds no mpich_*.orig.tar.xz", cache)
	}
	return found[len(found)-1], nil
}

// aptSource downloads the source package mpich into cache.
func aptSource(cache, mirror string) error {
	apt := filepath.Join(cache, "apt")
	for _, dir := range []string{"lists/partial", "archives/partial"} {
		if err := os.MkdirAll(filepath.Join(apt, dir), 0o755); err != nil {
			return fmt.Errorf("make folders for apt-get: %w", err)
		}
	}
	release, err := debianRelease()
	if err != nil {
		return err
	}
	list := filepath.Join(apt, "sources.list")
	line := fmt.Sprintf("deb-src [signed-by=%s] %s %s main\n", keyring, mirror, release)
	if err := os.WriteFile(list, []byte(line), 0o644); err != nil {
		return fmt.Errorf("write %s: %w", list, err)
	}
	options := []string{
		"-o", "Dir::Etc::sourcelist=" + list, "-o", "Dir::Etc::sourceparts=/dev/null",
		"-o", "Dir::State::lists=" + apt + "/lists", "-o", "Dir::Cache=" + apt,
		"-o", "APT::Sandbox::User=", "-o", "Acquire::Retries=10",
	}
	if err := quietly(cache, "apt-get", append(options, "update")...); err != nil {
		return err
	}
	err = quietly(cache, "apt-get", append(options, "source", "--download-only", "mpich")...)
	if err != nil {
		return fmt.Errorf("%w\nor put mpich_*.orig.tar.xz into %s by hand", err, cache)
	}
	return nil
}

func debianRelease() (string, error) {
	text, err := os.ReadFile("/etc/os-release")
	if err != nil {
		return "", fmt.Errorf("the suite comes from Debian's source package: %w", err)
	}
	for _, line := range strings.Split(string(text), "\n") {
		if name, ok := strings.CutPrefix(line, "VERSION_CODENAME="); ok {
			return strings.Trim(name, `"`), nil
		}
	}
	return "", fmt.Errorf("/etc/os-release names no VERSION_CODENAME: the suite needs Debian")
}

// enableF08 lets configure offer the mpi_f08 tests for an installed MPI: as
// shipped it does so only inside MPICH's own build.
func enableF08(configure string) error {
	text, err := os.ReadFile(configure)
	if err != nil {
		return fmt.Errorf("read the suite's configure: %w", err)
	}
	const shipped = `if test "$enable_f08" = "yes" -a "$FROM_MPICH" = "yes" ; then`
	if strings.Count(string(text), shipped) != 1 {
		return fmt.Errorf("%s: the test for mpi_f08 is not where it was in MPICH 4.0", configure)
	}
	changed := strings.Replace(string(text), shipped, `if test "$enable_f08" = "yes" ; then`, 1)
	return os.WriteFile(configure, []byte(changed), 0o755)
}

// quietly runs a command in dir and shows its output only if it fails.
func quietly(dir, name string, args ...string) error {
	cmd := exec.Command(name, args...)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", cmd, err, tail(out, 2000))
	}
	return nil
}

func tail(text []byte, limit int) []byte {
	return text[max(0, len(text)-limit):]
}
