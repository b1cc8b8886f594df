package regcache_test

import (
	"fmt"
	"log"

	"github.com/mpitrace/mpitrace/regcache"
)

// A buffer that is used again is registered once; when its memory changes, it is
// registered anew.
func Example() {
	var generations regcache.Generations // what c/memhook shares
	cache, err := regcache.New(regcache.Options{
		Registrar:   regcache.NewMlock(),
		Generations: func() *regcache.Generations { return &generations },
		MaxBytes:    64 << 10,
	})
	if err != nil {
		log.Fatal(err)
	}
	buffer := make([]byte, 10000)
	address := regcache.Address(buffer)
	send := func() {
		region, err := cache.Acquire(address, uint64(len(buffer)))
		if err != nil {
			fmt.Println("copy:", err)
			return
		}
		if err := cache.Release(region); err != nil {
			log.Fatal(err)
		}
	}
	send()
	send()
	generations.Change(address, address+1)
	send()
	s := cache.Stats()
	fmt.Printf("hits %d, misses %d, invalidations %d\n", s.Hits, s.Misses, s.Invalidations)
	if err := cache.Close(); err != nil {
		log.Fatal(err)
	}
	// Output: hits 1, misses 2, invalidations 1
}
