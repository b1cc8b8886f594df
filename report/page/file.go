package page

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/mpitrace/mpitrace/report"
)

// CheckFile refuses a file that must not be written, before a report is made
// for it: one that exists, unless it may be replaced, and what is no file.
func CheckFile(path string, replace bool) error {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if _, err := os.Stat(filepath.Dir(path)); err != nil {
			return fmt.Errorf("%s: %s does not exist: make it, or choose another place", path, filepath.Dir(path))
		}
		return nil
	case err != nil:
		return err
	case !info.Mode().IsRegular():
		return fmt.Errorf("%s is not a file that could be replaced: choose another name, or - for standard output", path)
	case !replace:
		return fmt.Errorf("%s exists already: remove it, choose another name, or replace it with --force", path)
	}
	return nil
}

// WriteFile writes the page to a file and returns its size. The file appears
// when it is complete; an existing one is replaced only if asked for.
func WriteFile(path string, replace bool, r *report.Report, options Options) (bytes int64, err error) {
	if err := CheckFile(path, replace); err != nil {
		return 0, err
	}
	temporary := filepath.Join(filepath.Dir(path), fmt.Sprintf(".%s-%d", filepath.Base(path), os.Getpid()))
	file, err := os.OpenFile(temporary, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return 0, err
	}
	defer os.Remove(temporary)
	err = Write(file, r, options)
	if info, statErr := file.Stat(); statErr == nil {
		bytes = info.Size()
	}
	if err := errors.Join(err, file.Close()); err != nil {
		return 0, err
	}
	if replace {
		return bytes, os.Rename(temporary, path)
	}
	return bytes, publish(temporary, path)
}

// publish gives the file its name unless somebody else took it meanwhile; file
// systems without links cannot tell.
func publish(from, to string) error {
	err := os.Link(from, to)
	if err == nil || errors.Is(err, fs.ErrExist) {
		return err
	}
	return os.Rename(from, to)
}
