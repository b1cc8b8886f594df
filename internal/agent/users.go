package agent

import (
	"context"
	"os/exec"
	"os/user"
	"strconv"
	"strings"
	"sync"
	"time"
)

// users finds names of users and remembers them.
type users struct {
	mu     sync.Mutex
	known  map[uint32]string
	failed map[uint32]time.Time // when there was no name
}

// lookUpWithin bounds a question to the directory service of the site.
const lookUpWithin = 2 * time.Second

// lookUpAgain is for how long a user without a name has none: the directory service
// may not have answered, or not have known the user yet.
const lookUpAgain = 5 * time.Minute

// name is the name of a user, or the number if it has none. It may take
// lookUpWithin the first time.
func (u *users) name(uid uint32) string {
	u.mu.Lock()
	defer u.mu.Unlock()
	if name, ok := u.known[uid]; ok {
		return name
	}
	if u.known == nil {
		u.known = map[uint32]string{}
	}
	if u.failed == nil {
		u.failed = map[uint32]time.Time{}
	}
	number := strconv.FormatUint(uint64(uid), 10)
	if time.Since(u.failed[uid]) < lookUpAgain {
		return number
	}
	name, ok := lookUpUser(number)
	if !ok {
		u.failed[uid] = time.Now()
		return number
	}
	u.known[uid] = name
	return name
}

// lookUpUser asks /etc/passwd, and getent for what only the name service of the
// site knows: a program without cgo cannot ask it.
func lookUpUser(uid string) (name string, ok bool) {
	if u, err := user.LookupId(uid); err == nil {
		return label(u.Username), true
	}
	ctx, cancel := context.WithTimeout(context.Background(), lookUpWithin)
	defer cancel()
	out, err := exec.CommandContext(ctx, "getent", "passwd", uid).Output()
	name, _, ok = strings.Cut(string(out), ":")
	return label(name), err == nil && ok && name != ""
}
