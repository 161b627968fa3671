// Package proctest gives tests of processes what no host promises them: a [Place] that every user may enter and whose
// sockets have short names, and [Program], the test binary for every user to execute; and [CgroupsWritable]. TMPDIR may be long or one user's
// alone (pam_tmpdir makes it so), and the umask may keep others from what the go command builds.
//
// It is imported by tests alone.
package proctest
