#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
#
# systemd.t - hummingd under a service manager: the units, sd_notify and the
# watchdog, reload, sockets that somebody else has opened, an installed tree.
# The manager is this script: no machine that runs tests has systemd as pid 1.
use strict;
use warnings;
use Cwd qw(abs_path);
use File::Basename qw(dirname);
use File::Temp qw(tempdir);
use IO::Select;
use JSON::PP qw(decode_json);
use POSIX ();
use Socket qw(AF_UNIX SOCK_DGRAM SOCK_STREAM SOCK_SEQPACKET SOMAXCONN pack_sockaddr_un);
use Test::More;
use Time::HiRes qw(time);

my $bin = $ENV{HM_BIN_DIR} or BAIL_OUT('HM_BIN_DIR is not set');
$bin = abs_path($bin);
my $build = dirname($bin);
my $units = abs_path(dirname(__FILE__) . '/../../systemd');
my $work  = tempdir('hm-sd-XXXXXX', TMPDIR => 1, CLEANUP => 1);
my $wait  = 60;
my %running;
my $manager; # the socket that daemons notify

delete @ENV{ grep { /^(HUMMING|XDG|LISTEN|WATCHDOG)_/ } keys %ENV };
delete @ENV{qw(NOTIFY_SOCKET JOURNAL_STREAM INVOCATION_ID)};
$ENV{HOME} = $work;

sub slurp {
    my ($path) = @_;
    open my $handle, '<:raw', $path or return '';
    local $/;
    my $text = <$handle>;
    return defined $text ? $text : '';
}

sub spew {
    my ($path, $text) = @_;
    open my $handle, '>:raw', $path or BAIL_OUT("$path: $!");
    print {$handle} $text;
    close $handle or BAIL_OUT("$path: $!");
    return $path;
}

# (exit status, both outputs in one text)
sub run {
    my (@command) = @_;
    my $pid = open my $out, '-|';
    BAIL_OUT("fork: $!") unless defined $pid;
    if (!$pid) {
        open STDERR, '>&', \*STDOUT or POSIX::_exit(97);
        exec { $command[0] } @command or POSIX::_exit(97);
    }
    my $text = do { local $/; <$out> };
    close $out;
    return ($? & 127 ? 128 + ($? & 127) : $? >> 8, defined $text ? $text : '');
}

sub program {
    my ($name) = @_;
    for my $folder (split(/:/, $ENV{PATH}), qw(/usr/bin /usr/sbin /bin /sbin)) {
        return "$folder/$name" if -x "$folder/$name";
    }
    return;
}

# A program of a package that systemd/setup.sh --tests installs.
sub tool {
    my ($name) = @_;
    return program($name) || BAIL_OUT("no $name here: run systemd/setup.sh --tests");
}

# --- units ---------------------------------------------------------------------

sub copy_units {
    my ($service, $program) = @_;
    my $folder = tempdir('units-XXXXXX', DIR => $work);
    my $text = slurp($service);
    $text =~ s{^ExecStart=\S+}{ExecStart=$program}m or BAIL_OUT("$service: no ExecStart");
    spew("$folder/hummingd.service", $text);
    spew("$folder/hummingd.socket",  slurp("$units/hummingd.socket"));
    return $folder;
}

my $service = slurp("$units/hummingd.service");
{
    my $analyze = tool('systemd-analyze');
    for my $from ("$units/hummingd.service", "$build/systemd/hummingd.service") {
        my $folder = copy_units($from, "$bin/hummingd");
        my ($code, $text) = run($analyze, 'verify', '--man=no', "$folder/hummingd.service",
            "$folder/hummingd.socket");
        is("$code|$text", '0|', "systemd-analyze verify: $from");
    }
    my $folder = copy_units("$units/hummingd.service", "$bin/hummingd");
    my ($code, $text) = run($analyze, 'security', '--offline=yes', '--no-pager', '--threshold=15',
        "$folder/hummingd.service");
    is($code, 0, 'systemd-analyze security: at most 1.5') or diag($text);
}
like($service, qr/^ExecStart=\/usr\/sbin\/hummingd$/m, 'the unit names the packaged program');
like($service, qr/^SystemCallFilter=\@system-service .*\b$_\b/m, "the unit lets workers call $_")
    for qw(landlock_create_ruleset landlock_add_rule landlock_restrict_self seccomp);
unlike($service, qr/^PrivateUsers=/m, 'peers keep their uids');
like($service, qr/^RuntimeDirectoryPreserve=yes$/m, 'the socket outlives the service');
{
    my ($listen) = slurp("$units/hummingd.socket") =~ /^ListenSequentialPacket=(\S+)$/m;
    is($listen, '/run/hummingd/hummingd.sock', 'the socket is where clients look');
    my $users = slurp("$units/hummingd.sysusers");
    for my $key (qw(User Group)) {
        my ($name) = $service =~ /^$key=(\S+)$/m;
        like($users, qr/^u \Q$name\E /m, "$key $name is made by sysusers");
    }
    like($users, qr/^g humming /m, 'so is the group with rights');
}

# --- a daemon, and us as its manager ---------------------------------------------

# Start hummingd with sockets on descriptor 3 and up; gives its pid. How:
# environment => {}, sockets => [], arguments => [], log => path, program => path,
# before => sub called before exec
sub start {
    my (%how) = @_;
    # What a daemon of before has said is not this one's.
    1 while defined $manager && defined message($manager, 0);
    my $pid = fork;
    BAIL_OUT("fork: $!") unless defined $pid;
    if ($pid) {
        $running{$pid} = 1;
        return $pid;
    }
    open STDIN,  '<',  '/dev/null' or POSIX::_exit(97);
    open STDOUT, '>',  '/dev/null' or POSIX::_exit(97);
    open STDERR, '>>', $how{log}   or POSIX::_exit(97);
    %ENV = (%ENV, %{ $how{environment} || {} });
    my @sockets = @{ $how{sockets} || [] };
    my @high = map { POSIX::dup2(fileno $sockets[$_], 100 + $_) } 0 .. $#sockets;
    POSIX::dup2(100 + $_, 3 + $_) for 0 .. $#high;
    if (@sockets) {
        $ENV{LISTEN_FDS} = @sockets;
        $ENV{LISTEN_PID} = $$ unless defined $ENV{LISTEN_PID};
    }
    $how{before}->() or POSIX::_exit(96) if $how{before};
    my @command = @{ $how{command} || [ $how{program} || "$bin/hummingd" ] };
    exec { $command[0] } @command, @{ $how{arguments} || [] } or POSIX::_exit(97);
}

# Exit status; the daemon is killed if it does not end in time.
sub finish {
    my ($pid) = @_;
    my $status;
    local $SIG{ALRM} = sub { kill 'KILL', $pid };
    alarm $wait;
    waitpid $pid, 0;
    $status = $?;
    alarm 0;
    delete $running{$pid};
    return $status & 127 ? 'signal ' . ($status & 127) : $status >> 8;
}

sub stop {
    my ($pid) = @_;
    kill 'TERM', $pid;
    return finish($pid);
}

END {
    my $code = $?;
    for my $pid (keys %running) {
        kill 'CONT', $pid;
        kill 'KILL', $pid;
        waitpid $pid, 0;
    }
    $? = $code;
}

sub new_socket {
    my ($path, $type) = @_;
    socket my $socket, AF_UNIX, $type, 0 or BAIL_OUT("socket: $!");
    bind $socket, pack_sockaddr_un($path) or BAIL_OUT("$path: $!");
    if ($type != SOCK_DGRAM) {
        listen $socket, SOMAXCONN or BAIL_OUT("listen: $!");
    }
    return $socket;
}

# The next datagram of a manager's socket, or undef after so long.
sub message {
    my ($socket, $seconds) = @_;
    return unless IO::Select->new($socket)->can_read($seconds);
    defined recv $socket, my $text, 4096, 0 or BAIL_OUT("recv: $!");
    return $text;
}

# Read on until one matches.
sub expect {
    my ($socket, $pattern, $name) = @_;
    my $until = time + $wait;
    while ((my $left = $until - time) > 0) {
        my $text = message($socket, $left);
        last unless defined $text;
        next unless $text =~ $pattern;
        pass($name);
        return $text;
    }
    fail($name);
    return '';
}

sub ctl {
    my ($socket, @arguments) = @_;
    return run("$bin/hummingctl", @arguments, '--socket', $socket, '--timeout', $wait);
}

sub status_of {
    my ($socket) = @_;
    my ($code, $text) = ctl($socket, 'status', '--json');
    return $code == 0 ? decode_json($text) : {};
}

my $folder = tempdir('d-XXXXXX', DIR => $work);
my $socket = "$folder/s";
my $log    = "$folder/log";
my @places = ('--socket', $socket, '--store', "$folder/store");

# --- sd_notify, watchdog, reload ----------------------------------------------------
$manager = new_socket("$folder/notify", SOCK_DGRAM);
my $conf    = spew("$folder/conf", "workers = 1\n[limits]\nuid_connections = 500\n");
my $pid     = start(
    log         => $log,
    arguments   => [ '-c', $conf, @places ],
    environment => { NOTIFY_SOCKET => "$folder/notify", WATCHDOG_USEC => 200000 },
);
like(expect($manager, qr/^READY=1/, 'ready is said'),
    qr/^STATUS=Serving \Q$socket\E; compiler starting$/m, 'with a status line');
expect($manager, qr/^STATUS=Serving .*; (compiler ready$|no compiler: )/, 'the status line changes');
expect($manager, qr/^WATCHDOG=1$/, "a sign of life ($_)") for 1 .. 3;

kill 'STOP', $pid;
waitpid $pid, POSIX::WUNTRACED();
1 while defined message($manager, 0);
is(message($manager, 0.7), undef, 'a daemon that does not run gives no sign of life');
kill 'CONT', $pid;
expect($manager, qr/^WATCHDOG=1$/, 'one that runs again does');

sub reload {
    my ($text, $name) = @_;
    spew($conf, $text);
    kill 'HUP', $pid;
    like(expect($manager, qr/^RELOADING=1$/m, "$name: reloading is said"),
        qr/^MONOTONIC_USEC=[1-9][0-9]+$/m, "$name: and when");
    expect($manager, qr/^READY=1/, "$name: then ready again");
    return slurp($log);
}

my $before = status_of($socket);
like(reload("workers = 2\n[log]\nlevel = info\n[limits]\nuid_connections = 500\n", 'good'),
    qr/configuration read again changed="workers,log\.level"/, 'the log names what changed');
is(status_of($socket)->{pid}, $before->{pid}, 'it is the same daemon');
is(status_of($socket)->{workers}{wanted}, 2, 'more workers are wanted now');
like(
    reload("workers = 2\nhot.bytes = 1M\n[log]\nlevel = info\n[store]\ncap = 1G\n", 'fixed'),
    qr/these need a restart and stay as they are keys="store\.cap,hot\.bytes"/,
    'the log names what stays'
);
is(status_of($socket)->{tiers}{hot}{cap}, $before->{tiers}{hot}{cap}, 'and it stays');
like(reload("workers = 2\n[log]\nlevel = loud\n", 'bad'),
    qr/configuration not read again, the old one stays why="\Q$conf\E:3: log\.level/,
    'a bad one is named by file and line');
is(status_of($socket)->{workers}{wanted}, 2, 'and changes nothing');
{
    # Any compiler of this machine, taken away and given back.
    my $status = status_of($socket);
    is($status->{readiness}, 'ready', 'there is a compiler') or diag($status->{degraded});
    spew($conf, "workers = 2\n[compiler]\nnvrtc = /nowhere\n");
    kill 'HUP', $pid;
    expect($manager, qr/^STATUS=Serving .*; no compiler: .*nowhere/, 'reload: no compiler there');
    is(status_of($socket)->{readiness}, 'no compiler', 'reload: status says so');
    spew($conf, "workers = 2\n");
    kill 'HUP', $pid;
    expect($manager, qr/^STATUS=Serving .*; compiler ready$/, 'reload: a compiler again');
    is(status_of($socket)->{degraded}, '', 'reload: nothing degraded');
}
reload("workers = 2\n[limits]\nuid_connections = 1\n", 'limit');
{
    socket my $first, AF_UNIX, SOCK_SEQPACKET, 0 or BAIL_OUT("socket: $!");
    connect $first, pack_sockaddr_un($socket) or BAIL_OUT("connect: $!");
    like((ctl($socket, 'ping'))[1], qr/limits\.uid_connections/, 'a limit holds from now on');
}
reload("workers = 1\n", 'default');
{
    my $code;
    for my $attempt (1 .. 50) { # the end of $first may not have been seen yet
        ($code) = ctl($socket, 'ping');
        last if $code == 0;
    }
    is($code, 0, 'and no longer when it is gone');
}
kill 'TERM', $pid;
expect($manager, qr/^STOPPING=1$/, 'stopping is said');
is(finish($pid), 0, 'exit status 0');

# A variable that is meant for another process.
$pid = start(
    log         => $log,
    arguments   => \@places,
    environment => {
        NOTIFY_SOCKET => "$folder/notify", WATCHDOG_USEC => 100000, WATCHDOG_PID => 1
    },
);
expect($manager, qr/^READY=1/, 'not watched: ready is said');
expect($manager, qr/; (compiler ready$|no compiler: )/, 'not watched: the status line changes');
is(message($manager, 0.5), undef, 'not watched: no sign of life');
is(stop($pid), 0, 'not watched: exit status 0');

# Files may not grow: as good as a full disk.
$pid = start(
    log         => $log,
    command     => [ '/bin/sh', '-c', 'ulimit -f 4; exec "$0" "$@"', "$bin/hummingd" ],
    arguments   => [ '--socket', $socket, '--store', "$folder/full" ],
    environment => { NOTIFY_SOCKET => "$folder/notify" },
);
expect($manager, qr/^STATUS=Serving .*store: .*File too large/, 'no store: the status line says why');
like(status_of($socket)->{degraded}, qr/store: .*File too large/, 'no store: so does status');
is(stop($pid), 0, 'no store: exit status 0');

# --- -n ------------------------------------------------------------------------------
my ($code, $text) = run("$bin/hummingd", '-n', '-c', $conf);
is("$code|$text", "0|hummingd: the configuration is good\n", '-n: a good configuration');
for my $bad (
    [ "workers = many\n",                      qr/conf:1: workers/ ],
    [ "[compiler]\nnvrtc = /nowhere/nvrtc\n",  qr/compiler\.nvrtc: \/nowhere\/nvrtc: No such/ ],
    [ "group = no-such-group\n",               qr/no group 'no-such-group'/ ],
    [ "[log]\ngroups = everything\n",          qr/log\.groups: no group 'everything'/ ],
    [ 'socket = /' . 'x' x 200 . "\n",         qr/longer than/ ],
) {
    spew($conf, $bad->[0]);
    ($code, $text) = run("$bin/hummingd", '-n', '-c', $conf);
    ok($code == 1 && $text =~ /\Ahummingd: [^\n]+\n\z/ && $text =~ $bad->[1],
        '-n: one line, exit 1: ' . $bad->[0] =~ s/\n/ /gr =~ s/x{20,}/x.../r)
        or diag("$code $text");
}

for my $bad (
    [ $folder,     qr/: is no regular file/ ],
    [ '/dev/zero', qr/: is no regular file/ ],
    [ spew("$folder/zero", "workers = 1\n\0\n"), qr/zero:2: a zero byte/ ],
    [ spew("$folder/long", "workers = 1\n# " . 'x' x 5000 . "\n"), qr/long:2: a line of more than/ ],
    [ spew("$folder/huge", "# fine\n" x 200000), qr/huge: is larger than 1 MiB/ ],
) {
    ($code, $text) = run("$bin/hummingd", '-n', '-c', $bad->[0]);
    ok($code == 1 && $text =~ /\Ahummingd: [^\n]+\n\z/ && $text =~ $bad->[1],
        "-c $bad->[0]: one line, exit 1")
        or diag("$code $text");
}

# --- odd surroundings ------------------------------------------------------------------

# With its first descriptors closed it must not write its log into its own files.
$pid = start(
    log         => $log,
    command     => [ '/bin/sh', '-c', 'exec "$0" "$@" <&- >&- 2>&-', "$bin/hummingd" ],
    arguments   => [ '-f', @places ],
    environment => { NOTIFY_SOCKET => "$folder/notify" },
);
expect($manager, qr/^READY=1/, 'closed descriptors: ready is said');
is(readlink "/proc/$pid/fd/$_", '/dev/null', "closed descriptors: $_ is /dev/null") for 0 .. 2;
is(stop($pid), 0, 'closed descriptors: exit status 0');

# Without its worker program it serves what it has.
spew("$folder/hummingd", slurp("$bin/hummingd"));
chmod 0755, "$folder/hummingd";
SKIP: {
    skip 'an installed worker would be found', 5 if -e '/usr/local/libexec/hummingd/humming-worker';
    $pid = start(
        log         => $log,
        program     => "$folder/hummingd",
        arguments   => [ '-f', @places ],
        environment => { NOTIFY_SOCKET => "$folder/notify" },
    );
    expect($manager, qr/no compiler: humming-worker is neither/, 'no worker: the status line says so');
    ($code, $text) = ctl($socket, 'get', 'w4a16,m=1', '--arch', 'sm_80');
    is($code, 1, 'no worker: a kernel is refused');
    like($text, qr/humming-worker is neither/, 'no worker: with the reason');
    is((ctl($socket, 'ping'))[0], 0, 'no worker: it lives');
    is(stop($pid), 0, 'no worker: exit status 0');
}

# --- a socket that was opened for us --------------------------------------------------
my $given = new_socket("$folder/given", SOCK_SEQPACKET);
socket my $early, AF_UNIX, SOCK_SEQPACKET, 0 or BAIL_OUT("socket: $!");
connect $early, pack_sockaddr_un("$folder/given") or BAIL_OUT("connect: $!");
# A HELLO of schema 1 that is said before anybody serves.
send $early, pack('LSCCLLC', 0x4d4d5548, 1, 1, 0, 1, 2, 0x08) . pack('C', 1), 0;

$pid = start(
    log         => $log,
    sockets     => [$given],
    arguments   => \@places,
    environment => { NOTIFY_SOCKET => "$folder/notify" }
);
like(expect($manager, qr/^READY=1/, 'activated: ready is said'),
    qr/Serving \Q$folder\E\/given;/, 'activated: with the name of that socket');
ok(IO::Select->new($early)->can_read($wait), 'activated: who came early is answered');
is(status_of("$folder/given")->{socket}, "$folder/given", 'activated: status names the socket');
ok(!-e $socket, 'activated: none of its own');
is(stop($pid), 0, 'activated: exit status 0');
ok(-S "$folder/given", 'activated: the socket is still there');

# While the manager listens and no daemon runs, the socket is no leftover.
($code, $text) = run("$bin/hummingd", '-f', '--socket', "$folder/given", '--store', "$folder/o");
ok($code == 1 && $text =~ /given: another program listens there/, 'a living socket is not removed')
    or diag("$code $text");
ok(-S "$folder/given", 'it is still there');

# A second life on the same socket.
$pid = start(
    log         => $log,
    sockets     => [$given],
    arguments   => \@places,
    environment => { NOTIFY_SOCKET => "$folder/notify" }
);
expect($manager, qr/^READY=1/, 'activated again: ready is said');
is((ctl("$folder/given", 'ping'))[0], 0, 'activated again: serves');
kill 'KILL', $pid;
finish($pid);
ok(-S "$folder/given", 'killed: the socket is still there');

# For another process: ignored.
$pid = start(
    log         => $log,
    sockets     => [$given],
    arguments   => \@places,
    environment => { NOTIFY_SOCKET => "$folder/notify", LISTEN_PID => 1 }
);
like(expect($manager, qr/^READY=1/, "another's LISTEN_PID: ready is said"),
    qr/Serving \Q$socket\E;/, "another's LISTEN_PID: own socket");
is(stop($pid), 0, "another's LISTEN_PID: exit status 0");

for my $wrong (
    [ 'a stream socket', [ new_socket("$folder/stream", SOCK_STREAM) ], qr/ListenSequentialPacket/ ],
    [ 'a datagram socket', [ new_socket("$folder/dgram", SOCK_DGRAM) ], qr/ListenSequentialPacket/ ],
    [ 'no socket',       [ do { open my $null, '<', '/dev/null'; $null } ], qr/ListenSequentialPacket/ ],
    [ 'two sockets', [ $given, new_socket("$folder/two", SOCK_SEQPACKET) ], qr/LISTEN_FDS=2/ ],
) {
    my $why = "$folder/why";
    unlink $why;
    $pid = start(log => $why, sockets => $wrong->[1], arguments => \@places);
    is(finish($pid), 1, "$wrong->[0]: exit status 1");
    ok(slurp($why) =~ /\Ahummingd: [^\n]+\n\z/ && slurp($why) =~ $wrong->[2],
        "$wrong->[0]: one line says why")
        or diag(slurp($why));
}

{
    my $activate = tool('systemd-socket-activate');
    my $listening = "$folder/by-systemd";
    $pid = start(
        log     => $log,
        command => [
            $activate, '--seqpacket', '-E', "NOTIFY_SOCKET=$folder/notify", '-l', $listening,
            "$bin/hummingd", @places
        ],
    );
    my $until = time + $wait;
    select undef, undef, undef, 0.01 while !-S $listening && time < $until;
    is((ctl($listening, 'ping'))[0], 0, 'systemd-socket-activate: the first client is served');
    is(status_of($listening)->{socket}, $listening, 'systemd-socket-activate: status names it');
    is(stop($pid), 0, 'systemd-socket-activate: exit status 0');
}

# --- confined as the unit confines it -----------------------------------------------------

# Numbers of the system calls that the unit's filter leaves.
sub allowed_calls {
    my $analyze = tool('systemd-analyze');
    my %number = slurp('/usr/include/x86_64-linux-gnu/asm/unistd_64.h') =~ /__NR_(\w+) (\d+)/g;
    my (%group, $name);
    for (split /\n/, (run($analyze, 'syscall-filter', '--no-pager'))[1]) {
        $name = $1 if /^(\@\S+)/;
        push @{ $group{$name} }, $1 if /^    ([\@\w]\S*)/;
    }
    my $expand;
    $expand = sub { map { /^\@/ ? $expand->(@{ $group{$_} || [] }) : $_ } @_ };
    my %allowed = map { $_ => 1 } $expand->('@default');
    while ($service =~ /^SystemCallFilter=(~?)(.*)$/mg) {
        my ($not, @calls) = ($1, $expand->(split ' ', $2));
        $not ? delete @allowed{@calls} : (@allowed{@calls} = (1) x @calls);
    }
    return sort { $a <=> $b } grep { defined } map { $number{$_} } keys %allowed;
}

sub become {
    my ($uid) = @_;
    return if $uid == $>;
    $) = "$uid $uid";
    POSIX::setgid($uid);
    POSIX::setuid($uid);
    return;
}

# Whether a user may run a program where it lies.
sub may_run {
    my ($uid, $program) = @_;
    my $pid = fork;
    BAIL_OUT("fork: $!") unless defined $pid;
    if (!$pid) {
        become($uid);
        POSIX::_exit(POSIX::access($program, POSIX::X_OK()) ? 0 : 1);
    }
    waitpid $pid, 0;
    return $? == 0;
}

# In the child: MemoryDenyWriteExecute=, SystemCallFilter=, User=.
sub confine {
    my ($uid, @calls) = @_;
    my ($prctl, $no_new_privs, $seccomp, $mdwe) = (157, 38, 22, 65);
    # seccomp(2): load the number, compare, allow; else EPERM.
    my $program = pack 'SCCL', 0x20, 0, 0, 0;
    $program .= pack('SCCL', 0x15, 0, 1, $_) . pack('SCCL', 0x06, 0, 0, 0x7fff0000) for @calls;
    $program .= pack 'SCCL', 0x06, 0, 0, 0x00050001;
    my $filter = pack 'Sx6P', length($program) / 8, $program;
    become($uid);
    syscall $prctl, $mdwe, 1, 0, 0, 0; # not in older kernels
    return syscall($prctl, $no_new_privs, 1, 0, 0, 0) == 0
        && syscall($prctl, $seccomp, 2, $filter, 0, 0) == 0;
}

SKIP: {
    skip 'the numbers of system calls are those of x86_64', 8
        if (POSIX::uname())[4] ne 'x86_64';
    my @calls = allowed_calls() or BAIL_OUT('systemd-analyze names no system call');
    skip 'instrumented programs need more than the unit gives', 8
        if slurp("$build/CMakeCache.txt") =~ /^HUMMING_SANITIZE:\w+=\S/m;
    my $own = "$folder/confined";
    mkdir $own or BAIL_OUT("mkdir: $!");
    # The tree may lie where others cannot go: /root.
    for my $name (qw(hummingd humming-worker)) {
        spew("$own/$name", slurp("$bin/$name"));
        chmod 0755, "$own/$name";
    }
    chmod 0755, $work, $folder;
    chmod 0666, "$folder/notify";
    my $uid = $> == 0 && may_run(65534, "$own/hummingd") ? 65534 : $>;
    chown $uid, $uid, $own;
    my %whole;
    for my $is_confined (0, 1) {
        $pid = start(
            log         => $log,
            program     => "$own/hummingd",
            arguments   => [ '-f', '--socket', "$own/s$is_confined", '--store', "$own/store$is_confined" ],
            environment => { NOTIFY_SOCKET => "$folder/notify" },
            before      => $is_confined ? sub { confine($uid, @calls) } : undef,
        );
        expect($manager, qr/; (compiler ready$|no compiler: )/,
            'looks for a compiler' . ($is_confined ? ', confined' : ''));
        my $status = status_of("$own/s$is_confined");
        is($status->{uid}, $is_confined ? $uid : $>, 'runs as who it should');
        $whole{$is_confined} = "$status->{readiness}; @{ $status->{sandbox} }";
        if ($is_confined) {
            my ($code, $text) = ctl("$own/s1", 'get', 'w4a16,m=1', '--arch', 'sm_80');
            is($code, 0, 'confined: builds a kernel') or diag($text);
        }
        is(stop($pid), 0, 'exit status 0');
    }
    is($whole{1}, $whole{0}, 'confined: workers have the same compiler and sandbox');
}

# --- an installed tree -------------------------------------------------------------------
{
    my $cmake = tool('cmake');
    my $prefix = "$folder/root/usr";
    ($code, $text) = run($cmake, '--install', $build, '--prefix', $prefix);
    is($code, 0, 'cmake --install') or diag($text);
    for my $file (
        qw(sbin/hummingd libexec/hummingd/humming-worker bin/hummingctl
        lib/systemd/system/hummingd.service lib/systemd/system/hummingd.socket
        lib/sysusers.d/hummingd.conf share/man/man8/hummingd.8 share/man/man5/hummingd.conf.5)
    ) {
        ok(-e "$prefix/$file", "installed: $file");
    }
    $pid = start(
        log         => $log,
        program     => "$prefix/sbin/hummingd",
        arguments   => [ '-f', @places ],
        environment => { NOTIFY_SOCKET => "$folder/notify" }
    );
    expect($manager, qr/^READY=1/, 'installed: runs');
    my $line = expect($manager, qr/; (compiler ready$|no compiler: )/, 'installed: looks for a compiler');
    unlike($line, qr/humming-worker is neither/, 'installed: finds its worker');
    is(stop($pid), 0, 'installed: exit status 0');
}

done_testing();
