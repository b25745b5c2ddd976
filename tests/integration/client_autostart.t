#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
#
# client_autostart.t - a private daemon that does not start as it should: the
# caller is back within its deadline, with one line, and leaves no process that
# holds it up. hummingctl runs from a folder of its own, beside a hummingd that is
# a script.
use strict;
use warnings;
use File::Copy qw(copy);
use File::Temp qw(tempdir);
use POSIX ();
use Test::More;
use Time::HiRes qw(time sleep);

my $bin = $ENV{HM_BIN_DIR} or BAIL_OUT('HM_BIN_DIR is not set');
plan skip_all => 'a hummingd of this node is there' if -e '/run/hummingd/hummingd.sock';
my $work = tempdir('hm-auto-XXXXXX', TMPDIR => 1, CLEANUP => 1);

delete @ENV{ grep { /^(HUMMING|XDG)_/ } keys %ENV };
mkdir "$work/$_" or BAIL_OUT("mkdir: $!") for qw(bin tmp home);
@ENV{qw(TMPDIR HOME)} = ("$work/tmp", "$work/home");
copy("$bin/hummingctl", "$work/bin/hummingctl") or BAIL_OUT("copy: $!");
chmod 0755, "$work/bin/hummingctl";

sub slurp {
    my ($path) = @_;
    open my $handle, '<', $path or return '';
    local $/;
    my $text = <$handle>;
    return defined $text ? $text : '';
}

# What stands in hummingd's place; its pid is written down, so that it can go.
sub install {
    my ($body) = @_;
    open my $handle, '>', "$work/bin/hummingd" or BAIL_OUT("hummingd: $!");
    print {$handle} "#!/bin/sh\necho \$\$ >>$work/pids\n$body\n";
    close $handle or BAIL_OUT("hummingd: $!");
    chmod 0755, "$work/bin/hummingd";
    return;
}

# Run it: exit code, stderr, seconds.
sub get {
    my ($timeout) = @_;
    my $begun = time;
    my $pid   = fork;
    BAIL_OUT("fork: $!") unless defined $pid;
    if (!$pid) {
        open STDOUT, '>', '/dev/null'  or POSIX::_exit(97);
        open STDERR, '>', "$work/err"  or POSIX::_exit(97);
        exec "$work/bin/hummingctl", 'get', 'w4a16,m=1', '--arch', 'sm_80',
            '--timeout', $timeout or POSIX::_exit(97);
    }
    waitpid $pid, 0;
    return ($? >> 8, slurp("$work/err"), time - $begun);
}

my @cases = (
    [ 'leaves with a reason', 'echo "hummingd: no room" >&2; exit 1', 10, qr/no room/ ],
    [ 'leaves without a word', 'exit 0', 10, qr/left before it was ready/ ],
    [ 'never says ready', 'exec sleep 60', 0.5, qr/still starting/ ],
    # It is taken for one that leaves, and does not.
    [ 'closes the pipe and stays', 'exec 3>&-; exec sleep 60', 0.5, qr/hummingd/ ],
    [ 'is stopped with the pipe closed', 'exec 3>&-; kill -STOP $$', 0.5, qr/hummingd/ ],
    [ 'says ready and does not listen', 'echo ready >&3; exec sleep 60', 0.5, qr/hummingd/ ],
    [ 'is no program', 'exec /nonexistent', 10, qr/hummingd/ ],
);
for my $case (@cases) {
    my ($name, $body, $timeout, $says) = @$case;
    install($body);
    my ($code, $text, $seconds) = get($timeout);
    is($code, 1, "$name: fails") or diag($text);
    like($text, $says, '... and says what it was');
    is($text =~ tr/\n//, 1, '... in one line');
    cmp_ok($seconds, '<', $timeout + 5, '... in time');
}
for my $pid (split /\n/, slurp("$work/pids")) {
    kill 'KILL', $pid if $pid =~ /^\d+$/;
}

done_testing();
