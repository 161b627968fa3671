package keeper

import (
	"os"
	"slices"
	"strings"

	"reconciler.dev/reconciler/spec"
)

// environment is a workload's whole environment (API.md rule 9): the base, then what the launch declares, by name. Of this
// process's own nothing goes in but what is declared to be inherited; a variable that is not set here is absent.
func environment(l *spec.Launch, home, user, notify string) []string {
	env := []string{
		"HOME=" + home, "PATH=/usr/local/bin:/usr/bin:/bin", "LANG=C.UTF-8", "USER=" + user, "LOGNAME=" + user,
		"NOTIFY_SOCKET=" + notify,
	}
	if l.Console != nil && l.Console.TTY != nil {
		env = append(env, "TERM=xterm") // what the terminals of those who attach understand
	}
	for _, e := range l.Env {
		value := e.Value
		if e.Inherit {
			var set bool
			if value, set = os.LookupEnv(e.Name); !set {
				continue
			}
		}
		env = setVariable(env, e.Name, value)
	}
	return env
}

func setVariable(env []string, name, value string) []string {
	entry := name + "=" + value
	i := slices.IndexFunc(env, func(e string) bool { return strings.HasPrefix(e, name+"=") })
	if i < 0 {
		return append(env, entry)
	}
	env[i] = entry
	return env
}
