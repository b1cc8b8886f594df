package memmon

import (
	"errors"
	"fmt"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"
	"github.com/cilium/ebpf/link"
)

// program is the loaded kernel program with its maps. Its methods are not safe
// for concurrent use.
type program struct {
	collection *ebpf.Collection
	generation *ebpf.MapSpec // of one process
	attached   []link.Link   // empty while nobody is watched
}

// load puts the program into the kernel, for at most so many processes at once.
func load(processes int) (*program, error) {
	p, err := loadWith(processes, true)
	if errors.Is(err, btf.ErrNotFound) || errors.Is(err, ebpf.ErrNotSupported) {
		// before Linux 6.4 there is no such tracepoint
		p, err = loadWith(processes, false)
	}
	if err != nil {
		return nil, explain(err)
	}
	return p, nil
}

func loadWith(processes int, ring bool) (*program, error) {
	spec, err := loadKernel()
	if err != nil {
		return nil, err
	}
	for _, m := range []string{kernelMapSlots, kernelMapWatched, kernelMapPending, kernelMapOwners} {
		spec.Maps[m].MaxEntries = uint32(processes)
	}
	if !ring {
		delete(spec.Programs, kernelProgRingSubmits)
		if err := spec.Variables[kernelVarRingIsNotSeen].Set(true); err != nil {
			return nil, err
		}
	}
	c, err := ebpf.NewCollection(spec)
	if err != nil {
		return nil, err
	}
	return &program{collection: c, generation: spec.Maps[kernelMapSlots].InnerMap}, nil
}

// close lets go of the program; processes that are watched keep it alive.
func (p *program) close() {
	p.detach()
	p.collection.Close()
}

// attach has the kernel run the program; it does nothing if it runs already.
func (p *program) attach() error {
	if len(p.attached) > 0 {
		return nil
	}
	for name, prog := range p.collection.Programs {
		l, err := link.AttachTracing(link.TracingOptions{Program: prog, AttachType: ebpf.AttachTraceRawTp})
		if err != nil {
			p.detach()
			return fmt.Errorf("attach %s: %w", name, explain(err))
		}
		p.attached = append(p.attached, l)
	}
	return nil
}

func (p *program) detach() {
	for _, l := range p.attached {
		_ = l.Close() // closes a descriptor: there is nothing to be done about an error
	}
	p.attached = nil
}

// holds are the descriptors that keep the program attached.
func (p *program) holds() ([]int, error) {
	var fds []int
	for _, l := range p.attached {
		f, ok := l.(interface{ FD() int })
		if !ok {
			return nil, fmt.Errorf("memory monitor: a %T has no descriptor", l)
		}
		fds = append(fds, f.FD())
	}
	return fds, nil
}

// open prepares a slot for the process that will present the token, and
// returns its generations.
func (p *program) open(slot uint32, token uint64) (*ebpf.Map, error) {
	m, err := ebpf.NewMap(p.generation)
	if err != nil {
		return nil, explain(err)
	}
	err = p.collection.Maps[kernelMapSlots].Put(slot, m)
	if err == nil {
		err = p.collection.Maps[kernelMapPending].Put(token, slot)
	}
	if err != nil {
		m.Close()
		return nil, errors.Join(fmt.Errorf("memory monitor: slot %d: %w", slot, err), p.release(slot, token))
	}
	return m, nil
}

// release makes a slot free for another process. The order matters: once the
// token is gone, and the kernel has waited for running programs, as it does
// when it takes a map out of a map, nobody can get attached to the slot any
// more, and what owners says is final.
func (p *program) release(slot uint32, token uint64) error {
	maps := p.collection.Maps
	err := missingIsFine(maps[kernelMapPending].Delete(token))
	err = errors.Join(err, missingIsFine(maps[kernelMapSlots].Delete(slot)))
	var owner kernelOwner
	if e := maps[kernelMapOwners].Lookup(slot, &owner); e != nil || owner.AddressSpace == 0 {
		return errors.Join(err, e)
	}
	var holder uint32
	e := maps[kernelMapWatched].Lookup(owner.AddressSpace, &holder)
	if e == nil && holder == slot {
		e = maps[kernelMapWatched].Delete(owner.AddressSpace)
	}
	return errors.Join(err, missingIsFine(e), maps[kernelMapOwners].Put(slot, kernelOwner{}))
}

// missingIsFine: what is to be removed was not there.
func missingIsFine(err error) error {
	if errors.Is(err, ebpf.ErrKeyNotExist) {
		return nil
	}
	return err
}
