#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
#
# bench.t - hummingctl bench: what it prints, how it fails, and that its daemon
# is gone afterwards, whatever happened. Nothing here depends on a time.
use strict;
use warnings;
use File::Temp qw(tempdir);
use JSON::PP qw(decode_json);
use POSIX ();
use Test::More;
use Time::HiRes qw(time sleep);

my $bin = $ENV{HM_BIN_DIR} or BAIL_OUT('HM_BIN_DIR is not set');
my $work = tempdir('hm-bt-XXXXXX', TMPDIR => 1, CLEANUP => 1);

# A folder of our own to look into; nothing of the caller's.
delete @ENV{ grep { /^HUMMING_(?!NVRTC|PREFIX)/ } keys %ENV };
delete $ENV{NOTIFY_SOCKET};
mkdir "$work/tmp" or BAIL_OUT("mkdir: $!");
$ENV{TMPDIR} = "$work/tmp";

sub slurp {
    my ($path) = @_;
    open my $handle, '<:raw', $path or return '';
    local $/;
    my $text = <$handle>;
    return defined $text ? $text : '';
}

sub start {
    my (@arguments) = @_;
    my $pid = fork;
    BAIL_OUT("fork: $!") unless defined $pid;
    return $pid if $pid;
    open STDIN,  '<', '/dev/null' or POSIX::_exit(97);
    open STDOUT, '>', "$work/out" or POSIX::_exit(97);
    open STDERR, '>', "$work/err" or POSIX::_exit(97);
    exec "$bin/hummingctl", 'bench', @arguments or POSIX::_exit(97);
}

# Its exit code, or the signal that ended it.
sub finish {
    my ($pid) = @_;
    waitpid $pid, 0;
    return $? & 127 ? 'signal ' . ($? & 127) : $? >> 8;
}

# Processes that a bench has started: a daemon names our folder on its command
# line, a bare peer has it in its environment.
sub daemons {
    my @found;
    for my $path (glob '/proc/[0-9]*') {
        my $line = slurp("$path/cmdline");
        push @found, $path =~ m{(\d+)}
            if $line =~ /hummingd/ && index($line, "$work/tmp/") >= 0
            || $line =~ /\0bench\0peer\0/
            && index(slurp("$path/environ"), "TMPDIR=$work/tmp") >= 0;
    }
    return @found;
}

sub is_gone {
    my ($name) = @_;
    is(join(' ', daemons()), '', "$name: its daemon is gone");
    is(join(' ', glob "$work/tmp/*"), '', "$name: and its folder");
    return;
}

sub fails {
    my ($code, $pattern, $name, @arguments) = @_;
    my $got = finish(start(@arguments));
    my $err = slurp("$work/err");
    ok($got eq $code && $err =~ /\Ahummingctl: [^\n]+\n\z/ && $err =~ $pattern,
        "$name: exit $code, one line")
        or diag("exit $got, stderr: $err");
    is(slurp("$work/out"), '', "$name: nothing on stdout");
    is_gone($name);
    return;
}

# --- usage ---------------------------------------------------------------------
fails(2, qr/--help/, 'no kind');
fails(2, qr/'warm'/, 'unknown kind', 'warm');
fails(2, qr/--help/, 'two kinds', 'hit', 'herd');
fails(2, qr/--arch/, 'foreign option', 'hit', '--arch', 'sm_90a');
fails(2, qr/hit, herd and cold/, 'a peer without a socket', 'peer', '1', '1');
{
    local $ENV{TMPDIR} = "$work/tmp/" . 'x' x 90;
    fails(1, qr/TMPDIR/, 'no room for a socket', 'hit');
}
{
    local $ENV{TMPDIR} = "$work/tmp/missing";
    fails(1, qr/cannot make a folder/, 'no folder', 'hit');
}
fails(1, qr/timeout|deadline/, 'too little time', 'hit', '--timeout', '0.02');

# --- what needs a compiler -------------------------------------------------------
my @columns = qw(name p50_us per_s bare_p50_us bare_per_s ratio);
my %rows = (
    hit  => [qw(inline20k fd200k)],
    herd => ['herd64'],
    cold => [qw(cold-model cold-key64 compile compile-widest warm-model)],
);

sub check_rows {
    my ($kind, $code) = @_;
    is($code, 0, "$kind: works");
    is(slurp("$work/err"), '', "$kind: nothing on stderr");
    my $json = eval { decode_json(slurp("$work/out")) };
    is(ref $json eq 'HASH' ? join(' ', keys %$json) : '', 'rows', "$kind: one object, rows");
    my %row = map { $_->{name} => $_ } @{ $json->{rows} || [] };
    for my $name (@{ $rows{$kind} }) {
        my $row = $row{$name} || {};
        is(join(' ', grep { !defined $row->{$_} } @columns), '', "$name: has all columns");
        is(join(' ', grep { !(($row->{$_} || 0) > 0) } @columns[1 .. $#columns]),
            '', "$name: positive numbers");
        like($row->{verdict}, qr/\A(?:met|missed by \S.*)\z/, "$name: a verdict");
    }
    is_gone($kind);
    return \%row;
}

my $hit = check_rows('hit', finish(start('hit', '--json')));
my $file = $hit->{fd200k}{file_bytes} || 0;
ok($file > 190_000 && $file < 215_000, 'fd200k: about 200 KB by descriptor') or diag($file);
my $packet = $hit->{inline20k}{reply_bytes} || 0;
ok($packet > 15_000 && $packet <= 32_768 + 2048, 'inline20k: in the packet') or diag($packet);
is($hit->{inline20k}{file_bytes}, 0, 'inline20k: no descriptor');

my $herd = check_rows('herd', finish(start('--json', 'herd')));
is($herd->{herd64}{clients}, 64, 'herd64: 64 clients');

my $cold = check_rows('cold', finish(start('cold', '--json')));
is($cold->{'cold-key64'}{builds}, 1, 'cold-key64: one build');
ok(($cold->{'cold-model'}{kernels} || 0) >= 4, 'cold-model: several kernels');

is(finish(start('herd')), 0, 'table: works');
like(slurp("$work/out"), qr{\ANAME +P50 US .*^herd64 }ms, 'table: titles, a row');
is_gone('table');

# Ended in the middle: by a signal, or in a way that it cannot notice.
for my $signal (qw(INT TERM KILL)) {
    my $pid = start('herd');
    my $end = time + 20;
    sleep 0.02 while !daemons() && time < $end;
    sleep 0.3;
    kill $signal, $pid;
    my %number = (INT => 2, KILL => 9, TERM => 15);
    is(finish($pid), "signal $number{$signal}", "SIG$signal: ends it");
    # A daemon whose bench was killed is idle, and leaves by itself.
    sleep 0.1 while daemons() && time < $end;
    is(join(' ', daemons()), '', "SIG$signal: its daemon leaves");
    is(join(' ', glob "$work/tmp/*"), '', "SIG$signal: and its folder")
        if $signal ne 'KILL';
}

done_testing();
