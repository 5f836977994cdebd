#!/usr/bin/perl
# Locks for tests/e2e/locks.sh.
#   _lock.pl count KIND FILE TIMES     adds TIMES to the number in FILE, one at a time, each under a lock
#   _lock.pl hold KIND FILE RANGE...   locks, says "locked", and holds it until its input ends; says what
#                                      came of it
#   _lock.pl crowd FILE COUNT          as many processes wait for one lock; says how many were refused it, and at the end
#                                      of its input's first line how many were given it
#   _lock.pl many FILE COUNT           locks single bytes, and says how many it was given and what came of the next
#   _lock.pl try KIND FILE RANGE       locks without waiting, and says what came of it
#   _lock.pl holder FILE RANGE         what F_GETLK says
#   _lock.pl script FILE               takes commands from its input, a line each, and answers each with a line:
#                                      lock KIND RANGE, wait KIND RANGE, unlock KIND RANGE, holder RANGE,
#                                      open, close N, write TEXT, quit
# KIND is flock, posix or ofd, with 's' before it for a shared lock; RANGE is FIRST:LENGTH (length 0: to the
# end).
use strict;
use warnings;
use Errno qw(EAGAIN EACCES);
use Fcntl qw(:DEFAULT :flock :seek F_GETLK F_SETLK F_SETLKW F_RDLCK F_WRLCK F_UNLCK);

$| = 1;
# Linux on 64 bits: short, short, off_t, off_t, pid_t.
my $STRUCT = 's s x4 q q i x4';
my %OFD = (F_GETLK, 36, F_SETLK, 37, F_SETLKW, 38);

sub request {
    my ($file, $command, $kind, $type, $range) = @_;
    my ($first, $length) = split /:/, $range // '0:0';
    my $lock = pack $STRUCT, $type, SEEK_SET, $first, $length, 0;
    $command = $OFD{$command} if $kind =~ /ofd/;
    return fcntl($file, $command, $lock) ? $lock : undef;
}

# Locks or unlocks; true if it worked.
sub change {
    my ($file, $kind, $what, $range) = @_;
    my $shared = $kind =~ /^s/;
    if ($kind =~ /flock/) {
        return flock($file, LOCK_UN) if $what eq 'unlock';
        return flock($file, ($shared ? LOCK_SH : LOCK_EX) | ($what eq 'lock' ? LOCK_NB : 0));
    }
    my $type = $what eq 'unlock' ? F_UNLCK : $shared ? F_RDLCK : F_WRLCK;
    return defined request($file, $what eq 'wait' ? F_SETLKW : F_SETLK, $kind, $type, $range);
}

sub said {
    my ($worked) = @_;
    return $worked ? 'ok' : $!{EAGAIN} || $!{EACCES} ? 'busy' : $!{EDEADLK} ? 'deadlock'
        : $!{EINTR} ? 'interrupted' : $!{EIO} ? 'io' : "error $!";
}

sub holder {
    my ($file, $kind, $range) = @_;
    my $lock = request($file, F_GETLK, $kind, F_WRLCK, $range) or return said(0);
    my ($type, undef, $first, $length, $pid) = unpack $STRUCT, $lock;
    return 'nobody' if $type == F_UNLCK;
    return join ' ', ($type == F_RDLCK ? 'shared' : 'exclusive'), "$first:$length", $pid;
}

my ($what, @arguments) = @ARGV;
if ($what eq 'count') {
    my ($kind, $path, $times) = @arguments;
    # Opened once: what is read under the lock is what was written under it.
    sysopen my $file, $path, O_RDWR or die "open: $!";
    for (1 .. $times) {
        change($file, $kind, 'wait', '0:0') or die "lock: $!";
        sysseek $file, 0, SEEK_SET;
        sysread($file, my $number, 20) == 20 or die "read: $!";
        sysseek $file, 0, SEEK_SET;
        syswrite($file, sprintf '%020d', $number + 1) == 20 or die "write: $!";
        change($file, $kind, 'unlock', '0:0') or die "unlock: $!";
    }
} elsif ($what eq 'hold') {
    my ($kind, $path, $range) = @arguments;
    sysopen my $file, $path, O_RDWR or die "open: $!";
    print said(change($file, $kind, 'wait', $range)) eq 'ok' ? "locked\n" : "failed: $!\n";
    my $end = <STDIN>;
} elsif ($what eq 'crowd') {
    my ($path, $count) = @arguments;
    for (1 .. $count) {
        next if fork;
        sysopen my $file, $path, O_RDWR or die "open: $!";
        my $worked = change($file, 'flock', 'wait');
        exit($worked ? 0 : $!{ENOLCK} ? 1 : 2);
    }
    my %ended;
    wait;
    $ended{$? >> 8}++;
    print "refused ", $ended{1} // 0, "\n";
    my $line = <STDIN>;
    $ended{$? >> 8}++ while wait != -1;
    print join(' ', map { "$_:$ended{$_}" } sort keys %ended), "\n";
} elsif ($what eq 'many') {
    my ($path, $count) = @arguments;
    sysopen my $file, $path, O_RDWR or die "open: $!";
    my $given = 0;
    $given++ while $given < $count && change($file, 'posix', 'lock', 2 * $given . ':1');
    my $next = change($file, 'posix', 'lock', 2 * $given . ':1') ? 'ok' : $!{ENOLCK} ? 'ENOLCK' : $!;
    # It joins the first two, so that there is room for one.
    my $joined = said(change($file, 'posix', 'lock', '1:1'));
    my $then = said(change($file, 'posix', 'lock', 2 * $given . ':1'));
    my $middle = change($file, 'posix', 'unlock', '1:1') ? 'ok' : $!{ENOLCK} ? 'ENOLCK' : $!;
    print "$given $next $joined $then $middle\n";
} elsif ($what eq 'try') {
    my ($kind, $path, $range) = @arguments;
    sysopen my $file, $path, O_RDWR or die "open: $!";
    print said(change($file, $kind, 'lock', $range)), "\n";
} elsif ($what eq 'holder') {
    my ($path, $range) = @arguments;
    sysopen my $file, $path, O_RDWR or die "open: $!";
    print holder($file, 'posix', $range), "\n";
} elsif ($what eq 'script') {
    my ($path) = @arguments;
    my @files;
    sysopen $files[0], $path, O_RDWR or die "open: $!";
    # No restart: a signal ends what waits.
    require POSIX;
    my $action = POSIX::SigAction->new(sub { }, POSIX::SigSet->new, 0);
    POSIX::sigaction(POSIX::SIGUSR1(), $action);
    while (my $line = <STDIN>) {
        my ($command, @rest) = split ' ', $line;
        my $file = $files[0] // $files[-1];
        if ($command =~ /^(lock|wait|unlock)$/) {
            print said(change($file, $rest[0], $command, $rest[1])), "\n";
        } elsif ($command eq 'holder') {
            print holder($file, 'posix', $rest[0]), "\n";
        } elsif ($command eq 'open') {
            sysopen my $another, $path, O_RDWR or die "open: $!";
            push @files, $another;
            print "ok\n";
        } elsif ($command eq 'close') {
            my $worked = close $files[$rest[0]];
            $files[$rest[0]] = undef;
            print said($worked), "\n";
        } elsif ($command eq 'write') {
            sysseek $file, 0, SEEK_SET;
            print said(defined syswrite $file, join ' ', @rest), "\n";
        } elsif ($command eq 'quit') {
            last;
        } else {
            print "what is '$command'?\n";
        }
    }
} else {
    die "see the beginning of this file\n";
}
