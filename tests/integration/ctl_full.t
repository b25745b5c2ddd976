#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
#
# ctl_full.t - what hummingctl says when its output cannot be written, and when
# a private daemon cannot be started: one line that names the true cause.
use strict;
use warnings;
no warnings 'qw';    # SPECs have commas
use File::Copy qw(copy);
use File::Temp qw(tempdir);
use Test::More;

my $bin = $ENV{HM_BIN_DIR} or BAIL_OUT('HM_BIN_DIR is not set');
my $work = tempdir('hm-full-XXXXXX', TMPDIR => 1, CLEANUP => 1);

# Nothing of the caller's: no socket, no folder, no timeout.
delete @ENV{ grep { /^(HUMMING|XDG)_/ } keys %ENV };
$ENV{XDG_RUNTIME_DIR} = $work;

# Exit code and stderr of a hummingctl whose stdout is $out.
sub ctl {
    my ($out, @arguments) = @_;
    my $line = join ' ', map { "'$_'" } "$bin/hummingctl", @arguments;
    my $said = qx($line 2>&1 >$out </dev/null);
    return ($? >> 8, $said);
}

# More rows than stdio buffers, and fewer.
my @plan = qw(plan w4a16,n=8192,k=8192);
for my $case (
    [ 'much JSON', @plan, qw(--arch sm_90a,sm_80 --json) ],
    [ 'little JSON', qw(plan w4a16,n=8192,k=8192 --max-m 1 --arch sm_80 --json) ],
    [ 'text', @plan, qw(--arch sm_80) ],
  )
{
    my ($what, @arguments) = @$case;
    my ($code, $said) = ctl('/dev/full', @arguments);
    is($said, "hummingctl: plan: cannot write to stdout\n", "$what on a full device: one line");
    is($code, 1, "$what on a full device: exit 1");
}

# The log's name is taken by a folder.
mkdir "$work/humming", 0700 or BAIL_OUT("mkdir: $!");
mkdir "$work/humming/hummingd.log" or BAIL_OUT("mkdir: $!");
my ($code, $said) = ctl('/dev/null', qw(get w4a16,m=1,n=8192,k=8192 --arch sm_80));
is($said, "hummingctl: get: $work/humming/hummingd.log: Is a directory\n",
    'a log that cannot be opened is named, with the reason');
is($code, 1, 'and is a failure');
ok(!-e "$work/humming/hummingd.sock", 'nothing was started');
rmdir "$work/humming/hummingd.log" or BAIL_OUT("rmdir: $!");

# Beside this copy lies a hummingd that the kernel does not take for a program.
mkdir "$work/bin" or BAIL_OUT("mkdir: $!");
copy("$bin/hummingctl", "$work/bin/hummingctl") or BAIL_OUT("copy: $!");
open my $handle, '>', "$work/bin/hummingd" or BAIL_OUT("hummingd: $!");
print {$handle} "no program\n";
close $handle or BAIL_OUT("hummingd: $!");
chmod 0700, "$work/bin/hummingctl", "$work/bin/hummingd";
$bin = "$work/bin";
for my $case ([ qw(get w4a16,m=1,n=8192,k=8192 --arch sm_80) ], [ qw(bench hit) ]) {
    ($code, $said) = ctl('/dev/null', @$case);
    is($said, "hummingctl: $case->[0]: $work/bin/hummingd: cannot be started: Exec format error\n",
        "$case->[0]: a program that cannot be started is named, with the reason");
    is($code, 1, 'and is a failure');
}

done_testing();
