package keeper

import (
	"fmt"
	"os"
	"os/user"
	"strconv"
	"sync"
	"time"

	"reconciler.dev/reconciler/keeper/stage"
)

// runUser is whom a run belongs to.
type runUser struct {
	name       string
	credential *stage.Credential // nil: who runs the keeper
}

// users looks users up and remembers them for a moment: a thousand starts shall not read the user database a thousand times.
type users struct {
	mu    sync.Mutex
	known map[string]knownUser
}

type knownUser struct {
	user  *runUser
	since time.Time
}

// userMemory is how long a looked-up user holds.
const userMemory = 5 * time.Second

func newUsers() *users { return &users{known: map[string]knownUser{}} }

// find looks a user up; "" is who runs the keeper.
func (u *users) find(name string) (*runUser, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	now := time.Now()
	if k, ok := u.known[name]; ok && now.Sub(k.since) < userMemory {
		return k.user, nil
	}
	found, err := lookup(name)
	if err != nil {
		return nil, err
	}
	u.known[name] = knownUser{found, now}
	return found, nil
}

func lookup(name string) (*runUser, error) {
	self := os.Geteuid()
	if name == "" {
		me, err := user.LookupId(strconv.Itoa(self))
		if err != nil {
			return &runUser{name: strconv.Itoa(self)}, nil // a user without a name: containers have them
		}
		return &runUser{name: me.Username}, nil
	}
	found, err := user.Lookup(name)
	if err != nil {
		return nil, refuse(CheckUser, "spec.user: this host has no user %q", name)
	}
	uid, err := strconv.ParseUint(found.Uid, 10, 32)
	if err != nil {
		return nil, fmt.Errorf("cannot use user %s: %w", name, err)
	}
	if int(uid) == self {
		return &runUser{name: name}, nil
	}
	if self != 0 {
		return nil, refuse(CheckUser, "spec.user: this keeper does not run as root, so it can run nothing as %q", name)
	}
	return credentialed(found, uint32(uid))
}

func credentialed(found *user.User, uid uint32) (*runUser, error) {
	gid, err := strconv.ParseUint(found.Gid, 10, 32)
	if err != nil {
		return nil, fmt.Errorf("cannot use user %s: %w", found.Username, err)
	}
	ids, err := found.GroupIds()
	if err != nil {
		return nil, fmt.Errorf("cannot read the groups of user %s: %w", found.Username, err)
	}
	c := &stage.Credential{UID: uid, GID: uint32(gid)}
	for _, id := range ids {
		g, err := strconv.ParseUint(id, 10, 32)
		if err != nil {
			return nil, fmt.Errorf("cannot read the groups of user %s: %w", found.Username, err)
		}
		c.Groups = append(c.Groups, uint32(g))
	}
	return &runUser{name: found.Username, credential: c}, nil
}
