// Package faultd is a set of small, deliberately awkward workloads for the tests of this module. Each behaviour does one thing
// that a supervisor has to cope with, does it exactly, and says on standard output what it does.
//
// A test runs them by executing its own binary again, so that there is nothing to build and nothing to find:
//
//	func TestMain(m *testing.M) {
//		if len(os.Args) > 1 && os.Args[1] == "faultd" {
//			os.Exit(faultd.Main(os.Args[2:]))
//		}
//		os.Exit(m.Run())
//	}
//
//	exec.Command(os.Args[0], "faultd", "flood", "-mbps", "20", "-for", "5s")
//
// What holds for every behaviour:
//
//   - It ends by itself with [ExitLife] after -life (10m), so that a test which fails leaves nothing for long. The exception
//     is freeze, which only SIGCONT or SIGKILL ends.
//   - With -pids FILE it appends its process id to FILE, a line in one write, and so does every child of it: a test asserts
//     with that nothing is left, and cleans up by these ids.
//   - A behaviour or flag that is not there is [ExitUsage]; what faultd itself cannot do is [ExitFailure] and one line
//     "faultd: ..." on standard error.
//   - Lines go to standard output unbuffered. Signals that a behaviour does not speak of have their default action.
//   - It listens only on addresses that a flag names; the defaults are on 127.0.0.1.
//
// Nothing but tests imports this package.
package faultd
