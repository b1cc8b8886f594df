package vm

import (
	"bytes"
	"context"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// modules that a guest loads; what they depend on comes before them. Those for
// check sums are asked for by name when they are used.
var modules = []string{
	"virtio_pci", "virtio_console", "virtio_net", "9pnet_virtio", "9p", "overlay",
	"veth", "crc32_generic", "crc32c_generic", "ib_uverbs", "rdma_rxe",
}

// kernelPackage depends on the package of the newest kernel. The kernel for
// clouds has no rdma_rxe.
const kernelPackage = "linux-image-amd64"

// retries has apt-get ask again where the network fails for a moment.
const retries = "-oAcquire::Retries=10"

// kernel is Debian's, unpacked.
type kernel struct {
	image   string   // the kernel itself, as ELF
	modules []string // files, in the order of loading
}

// prepareKernel fetches the package and unpacks it to dir, unless that was done
// before; tests of several packages may come here at once.
func prepareKernel(dir string) (*kernel, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	lock, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	defer lock.Close()
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return nil, err
	}
	k := &kernel{image: filepath.Join(dir, "vmlinux")}
	tree := filepath.Join(dir, "package")
	if _, err := os.Stat(k.image); err != nil {
		err := fetchKernel(tree)
		if err != nil { // the lists of packages may be old, or not there
			if _, update := tool(10*time.Minute, "", "apt-get", "-q", retries, "update"); update == nil {
				err = fetchKernel(tree)
			}
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", kernelPackage, err)
		}
		if err := unpackImage(tree, k.image); err != nil {
			return nil, err
		}
	}
	k.modules, err = resolve(tree, modules)
	return k, err
}

// tool runs a program that must succeed within its time.
func tool(limit time.Duration, dir string, args ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Dir = dir
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if ctx.Err() != nil {
		err = fmt.Errorf("not finished after %v", limit)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w\n%s", strings.Join(args, " "), err, stderr.Bytes())
	}
	return out, nil
}

// fetchKernel downloads the package, which is not installed, and unpacks it.
func fetchKernel(tree string) error {
	list, err := tool(time.Minute, "", "apt-cache", "depends", kernelPackage)
	if err != nil {
		return err
	}
	name := ""
	for _, line := range strings.Split(string(list), "\n") {
		if n, ok := strings.CutPrefix(strings.TrimSpace(line), "Depends: linux-image-"); ok {
			name = "linux-image-" + n
		}
	}
	if name == "" {
		return errors.New("apt-cache knows no such package")
	}
	if err := errors.Join(os.RemoveAll(tree), os.MkdirAll(tree, 0o755)); err != nil {
		return err
	}
	// the sandbox's user may not write here
	if _, err := tool(15*time.Minute, tree, "apt-get", "-q", retries, "-o", "APT::Sandbox::User=root", "download", name); err != nil {
		return err
	}
	debs, err := filepath.Glob(filepath.Join(tree, "*.deb"))
	if err != nil || len(debs) != 1 {
		return fmt.Errorf("%d packages downloaded (%v)", len(debs), err)
	}
	if _, err := tool(10*time.Minute, "", "dpkg", "-x", debs[0], tree); err != nil {
		return err
	}
	return os.Remove(debs[0])
}

// unpackImage takes the kernel out of what a boot loader would start: emulated,
// unpacking it would take most of the time of booting. Where it lies is in the
// header (Linux x86 boot protocol, 2.08).
func unpackImage(tree, image string) error {
	files, err := filepath.Glob(filepath.Join(tree, "boot/vmlinuz-*"))
	if err != nil || len(files) != 1 {
		return fmt.Errorf("%d kernels in %s (%v)", len(files), tree, err)
	}
	b, err := os.ReadFile(files[0])
	if err != nil {
		return err
	}
	payload, err := payloadOf(b)
	if err != nil {
		return fmt.Errorf("%s: %w", files[0], err)
	}
	packed := image + ".xz"
	if err := os.WriteFile(packed, payload, 0o644); err != nil {
		return err
	}
	unpacked, err := tool(10*time.Minute, "", "xz", "--decompress", "--stdout", "--single-stream", packed)
	if err != nil {
		return err
	}
	if err := os.WriteFile(image+".new", unpacked, 0o644); err != nil {
		return err
	}
	return errors.Join(os.Remove(packed), os.Rename(image+".new", image))
}

// payloadOf returns the compressed kernel of a bootable image.
func payloadOf(b []byte) ([]byte, error) {
	const (
		sectors = 0x1f1 // of set-up code after the first
		magic   = 0x202
		version = 0x206
		offset  = 0x248
		length  = 0x24c
	)
	if len(b) < length+4 || string(b[magic:magic+4]) != "HdrS" || binary.LittleEndian.Uint16(b[version:]) < 0x208 {
		return nil, errors.New("not a Linux kernel of boot protocol 2.08 or later")
	}
	from := (int64(b[sectors])+1)*512 + int64(binary.LittleEndian.Uint32(b[offset:]))
	n := int64(binary.LittleEndian.Uint32(b[length:])) - 4 // without the size behind it
	if n < 6 || from+n > int64(len(b)) {
		return nil, errors.New("its payload lies outside the file")
	}
	payload := b[from : from+n]
	if !bytes.HasPrefix(payload, []byte("\xfd7zXZ\x00")) {
		return nil, errors.New("not compressed with xz")
	}
	return payload, nil
}

// resolve finds modules and what they depend on, in the order of loading.
func resolve(tree string, names []string) ([]string, error) {
	files := map[string]string{}
	err := filepath.WalkDir(filepath.Join(tree, "lib/modules"), func(path string, _ os.DirEntry, err error) error {
		if name, ok := strings.CutSuffix(filepath.Base(path), ".ko"); ok {
			files[strings.ReplaceAll(name, "-", "_")] = path
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	var order []string
	seen := map[string]bool{}
	var visit func(name string) error
	visit = func(name string) error {
		if seen[name] {
			return nil
		}
		seen[name] = true
		path, ok := files[name]
		if !ok {
			return fmt.Errorf("the kernel has no module %s", name)
		}
		needs, err := depends(path)
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		for _, need := range needs {
			if err := visit(need); err != nil {
				return err
			}
		}
		order = append(order, path)
		return nil
	}
	for _, name := range names {
		if err := visit(name); err != nil {
			return nil, err
		}
	}
	return order, nil
}

// depends reads what a module says of itself: its section .modinfo is strings
// that end with zero bytes.
func depends(path string) ([]string, error) {
	file, err := elf.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	section := file.Section(".modinfo")
	if section == nil {
		return nil, errors.New("no section .modinfo")
	}
	info, err := section.Data()
	if err != nil {
		return nil, err
	}
	var names []string
	for _, field := range strings.Split(string(info), "\x00") {
		if list, ok := strings.CutPrefix(field, "depends="); ok && list != "" {
			for _, name := range strings.Split(list, ",") {
				names = append(names, strings.ReplaceAll(name, "-", "_"))
			}
		}
	}
	return names, nil
}
