// Package terminal makes the pseudo-terminals of runs, and keeps their master sides beyond the end of whoever made them.
//
// A run's terminal lives as long as its master side is open: when the last descriptor of that is closed, the kernel hangs the
// workload up. So it is in two hands: the keeper's, which reads and writes, and a custodian's ([stage.Custodian]), a process of
// half a dozen system calls which does nothing but keep it. The two meet at a door, a Unix socket in the run's private folder, where
// nobody but the keeper's user comes: that is all the identity there is, and all that is needed. No number of a process is
// kept, and neither ptrace nor a newer kernel is asked for.
//
//	keeper --connect--> STATE/.../runs/ID/terminal --custodian--> the master side, by SCM_RIGHTS
//
// Promised: a [Terminal] of [Open] was fetched from its custodian once before it is given out, so that a terminal which a successor
// could not have again is an error at the start of the run and not a hang-up at the end of the keeper. What fails leaves no
// descriptor, process or socket behind (EC-7). A custodian without a keeper ends by itself once the terminal was closed everywhere and
// nothing in it is unread. [Terminal.Close] lets go and the run goes on; [Terminal.End] ends the terminal.
//
// The terminal is as Linux makes it (drivers/tty/tty_io.c, tty_std_termios): lines are edited and echoed, signals are sent by ^C, ^\ and
// ^Z, a newline is written as carriage return and newline; besides, erasing knows UTF-8 (IUTF8), as all programs of today write it. It is
// the user's with mode 0600: nobody writes messages to it, as they do to a login's.
//
// A line is handed over by [Terminal.Write], after [Terminal.Unread] was asked. What is read from the master side is the pump's.
package terminal
