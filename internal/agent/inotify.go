package agent

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// watchMask is what is asked of a directory: names that come and go.
const watchMask = unix.IN_CREATE | unix.IN_MOVED_TO | unix.IN_DELETE | unix.IN_MOVED_FROM | unix.IN_ONLYDIR

// event is a name that came or went in a watched directory.
type event struct {
	watch int
	mask  uint32
	name  string
}

func (e event) came() bool { return e.mask&(unix.IN_CREATE|unix.IN_MOVED_TO) != 0 }
func (e event) went() bool { return e.mask&(unix.IN_DELETE|unix.IN_MOVED_FROM) != 0 }

// watcher is the kernel's queue of such events. Close ends a read that waits.
type watcher struct {
	*os.File
	buffer [64 << 10]byte
}

func newWatcher() (*watcher, error) {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return nil, fmt.Errorf("inotify: %w (fs.inotify.max_user_instances allows no more for this user?)", err)
	}
	return &watcher{File: os.NewFile(uintptr(fd), "inotify")}, nil
}

// add watches an open directory. It goes by the descriptor: the path may lead
// elsewhere by now.
func (w *watcher) add(dir *os.File) (int, error) {
	return unix.InotifyAddWatch(int(w.Fd()), fmt.Sprintf("/proc/self/fd/%d", dir.Fd()), watchMask)
}

// next waits for events.
func (w *watcher) next() ([]event, error) {
	n, err := w.Read(w.buffer[:])
	if err != nil {
		return nil, err
	}
	var out []event
	for data := w.buffer[:n]; len(data) >= unix.SizeofInotifyEvent; {
		length := int(binary.NativeEndian.Uint32(data[12:]))
		end := min(unix.SizeofInotifyEvent+length, len(data))
		name, _, _ := bytes.Cut(data[unix.SizeofInotifyEvent:end], []byte{0})
		out = append(out, event{
			watch: int(int32(binary.NativeEndian.Uint32(data))), mask: binary.NativeEndian.Uint32(data[4:]), name: string(name),
		})
		data = data[end:]
	}
	return out, nil
}
