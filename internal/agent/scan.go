package agent

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/mpitrace/mpitrace/segment"
	"golang.org/x/sys/unix"
)

// scan looks through all places: at the start, now and then, and when the
// kernel has lost events. mu is held.
func (k *keeper) scan() {
	for name, b := range k.bases {
		if info, err := stat(b.dir); err == nil && info.Nlink == 0 {
			k.dropBase(name, b)
		}
	}
	for path := range k.badBases {
		if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
			delete(k.badBases, path)
		}
	}
	for i := range k.places {
		k.scanPlace(&k.places[i])
	}
	for _, b := range k.bases {
		k.scanBase(b)
	}
}

// dropBase forgets a base directory that was removed.
func (k *keeper) dropBase(path string, b *base) {
	for name := range b.jobs {
		k.forget(b, name)
	}
	b.dir.Close()
	delete(k.bases, path)
}

// scanPlace looks for new base directories.
func (k *keeper) scanPlace(p *place) {
	parent := k.openParent(p)
	if parent == nil {
		return
	}
	defer parent.Close()
	k.watch(parent, parentDir(p.parent))
	list := []string{p.pattern}
	if !p.given {
		var err error
		if list, err = names(parent); err != nil {
			k.fail(failedDirectory, err)
		}
	}
	for _, name := range list {
		if p.holds(name) {
			k.addBase(p, parent, name)
		}
	}
}

// lookAt looks at the one name in a place that came or went.
func (k *keeper) lookAt(p *place, name string) {
	if parent := k.openParent(p); parent != nil {
		defer parent.Close()
		k.addBase(p, parent, name)
	}
}

// openParent opens the parent directory of a place, nil if it cannot.
func (k *keeper) openParent(p *place) *os.File {
	parent, err := os.Open(p.parent)
	if err != nil {
		if !errors.Is(err, fs.ErrNotExist) {
			k.fail(failedDirectory, err)
		}
		return nil
	}
	return parent
}

// addBase takes a base directory, unless it is known; one that is gone is
// forgotten.
func (k *keeper) addBase(p *place, parent *os.File, name string) {
	path := filepath.Join(p.parent, name)
	known := k.bases[path]
	if known != nil {
		if info, err := stat(known.dir); err != nil || info.Nlink > 0 {
			return
		}
		k.dropBase(path, known)
	}
	dir, uid, err := p.open(parent, name)
	if err == nil && !p.given && k.manyBases(uid) {
		dir.Close()
		err = refusedLimit
	}
	var why refusal
	if errors.As(err, &why) {
		k.refuseBase(why, path)
		return
	}
	delete(k.badBases, path)
	if err != nil {
		k.failOpen(err)
		return
	}
	b := &base{place: p, name: name, dir: dir, uid: uid, jobs: map[string]*jobDir{}, bad: map[string]bool{}}
	k.bases[path] = b
	k.watch(dir, b)
	k.scanBase(b)
}

// manyBases tells whether a user, or all, have as many base directories as are
// held open.
func (k *keeper) manyBases(uid uint32) bool {
	own := 0
	for _, b := range k.bases {
		if b.uid == uid {
			own++
		}
	}
	return own >= k.limits.userBases || len(k.bases) >= k.limits.bases
}

// refuseBase counts a base directory once for each reason.
func (k *keeper) refuseBase(why refusal, path string) {
	if k.badBases[path] != why {
		k.badBases[path] = why
		k.refuse(why, path)
	}
}

// scanBase looks for new and changed job directories.
func (k *keeper) scanBase(b *base) {
	list, err := names(b.dir)
	if err != nil {
		k.fail(failedDirectory, err)
		return
	}
	there := make(map[string]bool, len(list))
	for _, name := range list {
		there[name] = true
		k.scanJob(b, name)
	}
	for name := range b.jobs {
		if !there[name] {
			k.forget(b, name)
		}
	}
	for name := range b.bad {
		if !there[name] {
			delete(b.bad, name)
		}
	}
}

// runName is what a job directory may be called: letters that need no care in
// a label or a path.
var runName = regexp.MustCompile(`^[A-Za-z0-9_-][A-Za-z0-9._-]{0,62}$`)

// settledAfter is how old the last change of a directory must be for its time
// stamp to tell of the next one.
const settledAfter = 2 * time.Second

// scanJob looks for new segments of a job.
func (k *keeper) scanJob(b *base, name string) {
	var info unix.Stat_t
	if b.bad[name] || unix.Fstatat(int(b.dir.Fd()), name, &info, unix.AT_SYMLINK_NOFOLLOW) != nil {
		return
	}
	kind := info.Mode & unix.S_IFMT
	if kind != unix.S_IFDIR && kind != unix.S_IFLNK {
		return // a socket, say: nothing that was meant to be a job
	}
	changed := time.Unix(info.Mtim.Unix())
	d := b.jobs[name]
	if d != nil && d.changed.Equal(changed) {
		return
	}
	dir, err := openDirectory(b.dir, name, b.uid)
	var why refusal
	if err == nil && !runName.MatchString(name) {
		dir.Close()
		err = refusedName
	}
	switch {
	case errors.As(err, &why):
		b.bad[name] = true
		k.refuse(why, filepath.Join(b.dir.Name(), name))
		return
	case err != nil:
		k.failOpen(err)
		return
	}
	defer dir.Close()
	if d == nil {
		d = &jobDir{base: b, name: name, segments: map[string]*held{}, done: map[string]bool{}}
		b.jobs[name] = d
		if len(b.jobs) <= k.limits.userWatches {
			k.watch(dir, d)
		} else {
			k.refuse(refusedLimit, dir.Name()) // seen by the next scan, which may be too late
		}
	}
	if k.scanSegments(d, dir) && k.now().Sub(changed) > settledAfter {
		d.changed = changed
	}
}

// scanSegments opens the segments of a job that are new, and notes those that
// are gone; false: it could not look.
func (k *keeper) scanSegments(d *jobDir, dir *os.File) bool {
	list, err := names(dir)
	if err != nil {
		k.fail(failedDirectory, err)
		return false
	}
	there := make(map[string]bool, len(list))
	for _, name := range list {
		if strings.HasSuffix(name, segment.FileSuffix) {
			there[name] = true
			k.takeFrom(d, dir, name)
		}
	}
	for name := range d.segments {
		if !there[name] {
			k.release(d, name)
		}
	}
	for name := range d.done {
		if !there[name] {
			delete(d.done, name)
		}
	}
	return true
}

// watch has the kernel tell of changes in a directory; if it will not, they are
// found by the next scan.
func (k *keeper) watch(dir *os.File, target any) {
	wd, err := k.watcher.add(dir)
	if err != nil {
		k.fail(failedWatch, err)
		return
	}
	k.watched[wd] = target
}
