#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
#
# ctl.t - hummingctl as scripts and people use it: every command against a real
# hummingd, every failure in exactly one line on stderr with its exit code.
use strict;
use warnings;
use File::Temp qw(tempdir);
use JSON::PP qw(decode_json);
use POSIX ();
use Socket qw(PF_UNIX SOCK_SEQPACKET pack_sockaddr_un);
use Test::More;
use Time::HiRes qw(time sleep);

my $bin = $ENV{HM_BIN_DIR} or BAIL_OUT('HM_BIN_DIR is not set');
my $work = tempdir('hm-ctl-XXXXXX', TMPDIR => 1, CLEANUP => 1);
my $socket = "$work/s";
my $daemon = 0;

# Nothing of the caller's: no socket, no folder, no timeout.
delete @ENV{ grep { /^(HUMMING|XDG)_/ } keys %ENV };
delete $ENV{NOTIFY_SOCKET};
mkdir "$work/tmp"  or BAIL_OUT("mkdir: $!");
mkdir "$work/home" or BAIL_OUT("mkdir: $!");
$ENV{TMPDIR} = "$work/tmp";
$ENV{HOME}   = "$work/home";

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

# Start a program with its output in files; gives the pid.
sub start {
    my ($out, $err, @command) = @_;
    my $pid = fork;
    BAIL_OUT("fork: $!") unless defined $pid;
    return $pid if $pid;
    open STDIN,  '<', '/dev/null' or POSIX::_exit(97);
    open STDOUT, '>', $out        or POSIX::_exit(97);
    open STDERR, '>', $err        or POSIX::_exit(97);
    exec { $command[0] } @command or POSIX::_exit(97);
}

sub ctl_start {
    my ($name, @arguments) = @_;
    return start("$work/$name.out", "$work/$name.err", "$bin/hummingctl", @arguments);
}

sub finish {
    my ($pid) = @_;
    waitpid $pid, 0;
    return $? & 127 ? "signal " . ($? & 127) : $? >> 8;
}

# (exit code, stdout, stderr) of one call.
sub ctl {
    my (@arguments) = @_;
    my $code = finish(ctl_start('ctl', @arguments));
    return ($code, slurp("$work/ctl.out"), slurp("$work/ctl.err"));
}

sub works {
    my ($name, @arguments) = @_;
    my ($code, $out, $err) = ctl(@arguments);
    is("$code|$err", '0|', "$name: works, nothing on stderr");
    return $out;
}

# One line, of the tool, with the exit code and what it must name.
sub fails {
    my ($code, $pattern, @arguments) = @_;
    my ($got, $out, $err) = ctl(@arguments);
    my $name = join ' ', map { length > 40 ? substr($_, 0, 40) . '...' : $_ } @arguments;
    $name =~ s/[^ -~]/?/g;
    ok($got eq $code
            && $err =~ /\Ahummingctl: [^\n]+\n\z/
            && $err =~ $pattern
            && ($code == 1 || $err =~ /--help/),
        "fails with $code in one line: $name")
        or diag("code $got, stderr: $err");
    return $out;
}

sub start_daemon {
    my (@options) = @_;
    pipe my $read, my $write or BAIL_OUT("pipe: $!");
    $daemon = fork;
    BAIL_OUT("fork: $!") unless defined $daemon;
    if (!$daemon) {
        open STDERR, '>>', "$work/log" or POSIX::_exit(97);
        POSIX::dup2(fileno $write, 3);
        $ENV{HUMMING_READY_FD} = 3;
        exec "$bin/hummingd", '-f', '--private', '--socket', $socket, '--store',
            "$work/store", @options
            or POSIX::_exit(97);
    }
    close $write;
    my $ready = <$read>;
    BAIL_OUT('hummingd did not start: ' . slurp("$work/log"))
        unless defined $ready && $ready eq "ready\n";
    return;
}

END {
    if ($daemon) {
        my $code = $?;
        kill 'CONT', $daemon;
        kill 'KILL', $daemon;
        waitpid $daemon, 0;
        $? = $code;
    }
}

my $spec = 'w4a16,m=1,n=4096,k=4096';
my @commands = qw(ping stop status stats get compile plan prewarm explain bench
    verify evict pin unpin drain reload doctor);
my $model = spew("$work/model.json", <<'JSON');
{ "architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "hidden_size": 5120,
  "intermediate_size": 25600, "num_attention_heads": 64, "num_key_value_heads": 8,
  "head_dim": 128, "num_hidden_layers": 64, "vocab_size": 151936, "torch_dtype": "bfloat16" }
JSON

# --- help and wrong usage --------------------------------------------------

my $help = works('--help', '--help');
for my $command (@commands) {
    like($help, qr/^  $command /m, "--help names $command");
    like(works("$command --help", $command, '--help'), qr/^usage: hummingctl $command.*example/s,
        "$command --help has an example");
}
unlike($help, qr/\bpack\b/, '--help names only what there is');
like(works('--version', '--version'), qr/\Ahummingctl \d+\.\d+\.\d+\n\z/, '--version');

fails(2, qr/no command/);
fails(2, qr/nonsense/, 'nonsense');
fails(2, qr/hit, herd and cold/, 'bench', 'warm');
fails(2, qr/--nonsense/, 'get', '--nonsense', $spec);
fails(2, qr/-x/, 'get', '-x', $spec);
fails(2, qr/--json/, 'stats', '--json=1');
fails(2, qr/--arch.*value/, 'get', $spec, '--arch');
fails(2, qr/SPEC/, 'get', '--arch', 'sm_90a');
fails(2, qr/one SPEC/, 'get', $spec, $spec, '--arch', 'sm_90a');
fails(2, qr/source file/, 'compile', '--arch', 'sm_90a');
fails(2, qr/--model/, 'plan', '--arch', 'sm_90a');
fails(2, qr/not both/, 'plan', $spec, '--model', $model, '--arch', 'sm_90a');
fails(2, qr/--tp/, 'plan', '--model', $model, '--tp', 'x', '--arch', 'sm_90a');
fails(2, qr/--tp/, 'plan', '--model', $model, '--tp', '0', '--arch', 'sm_90a');
fails(2, qr/--jobs/, 'prewarm', '--jobs', '99999999999999999999', $spec);
fails(2, qr/--timeout/, 'ping', '--timeout', 'soon');
fails(2, qr/--timeout/, 'ping', '--timeout', '0');
# Plain decimals, in a range that is told.
fails(2, qr/--timeout takes seconds above 0, up to 4000000, .*not '\Q$_\E'/, 'ping', '--timeout', $_)
    for qw(1e9 4000000.1 99999999999999999999 -1 +1 0x10 nan inf . 1.2.3 0.), '1 ';
for my $seconds (qw(4000000 3999999.9999 0.0001 .5 5.), '0' x 400 . '1.' . '5' x 400) {
    fails(1, qr/No such file/, 'ping', '--socket', $socket, '--timeout', $seconds);
}
fails(2, qr/operand/, 'ping', 'extra');
# Every option by its whole name only, which another version may not shorten.
for my $option (qw(socket timeout arch output json watch model tp ep quant max-m jobs help version)) {
    my $short = '--' . substr $option, 0, -1;
    fails(2, qr/$short/, 'prewarm', $short, 1) if $option !~ /\A(tp|ep)\z/;
    fails(2, qr/\Q$short\E/, 'prewarm', "$short=1") if $option !~ /\A(tp|ep)\z/;
}
fails(2, qr/--js: is --json meant/, 'status', '--js');
# Nothing is never a value.
fails(2, qr/--$_ takes a value that is not empty/, 'prewarm', "--$_", '')
    for qw(socket timeout arch model tp ep quant max-m jobs);
fails(2, qr/--socket takes/, 'ping', '--socket=');
fails(2, qr/-$_ takes a value that is not empty/, 'compile', 'x.cu', "-$_", '') for qw(o D);
fails(2, qr/operand is empty/, $_, '', '--arch', 'sm_90a') for qw(get compile plan prewarm explain);
# Options of a model beside none.
for my $command (qw(get plan prewarm)) {
    fails(2, qr/$_->[0] takes --model/, $command, $spec, '--arch', 'sm_90a', @$_)
        for [ '--tp', 8 ], [ '--ep', 2 ], [ '--quant', 'w4a16' ];
}
fails(2, qr/--max-m takes --model/, 'get', $spec, '--arch', 'sm_90a', '--max-m', 8);
fails(2, qr/does not take --json/, 'ping', '--json');
fails(2, qr/does not take -D/, 'get', $spec, '-DX');
{
    local $ENV{HUMMING_TIMEOUT} = 'soon';
    fails(1, qr/HUMMING_TIMEOUT/, 'ping');
}

# --- plan: asks nobody -----------------------------------------------------

my $plan = decode_json(
    works('plan --json', 'plan', '--model', $model, '--quant', 'w4a16', '--arch', 'sm_90a', '--json'));
ok(@$plan > 0 && @$plan <= 16, 'a dense model needs at most 16 kernels');
is(join(',', sort keys %{ $plan->[0] }), 'arch,key,spec,uses', 'fields of a plan row');
is(join(',', sort keys %{ $plan->[0]{uses}[0] }), 'k,layer,m_hi,m_lo,n', 'fields of a use');
my %covered;
for my $row (@$plan) {
    like($row->{key}, qr/\A[0-9a-f]{64}\z/, 'key of ' . $row->{spec});
    next if $row->{spec} =~ /,sms=/;    # its uses are of another device
    push @{ $covered{"$_->{layer} $_->{n}x$_->{k}"} }, [ $_->{m_lo}, $_->{m_hi} ]
        for @{ $row->{uses} };
}
is(join(' ', sort keys %covered),
    'down_proj 5120x25600 gate_up_proj 51200x5120 o_proj 5120x8192 qkv_proj 10240x5120',
    'every linear layer of the model, fused');
for my $layer (sort keys %covered) {
    my $next = 1;
    for my $range (sort { $a->[0] <=> $b->[0] } @{ $covered{$layer} }) {
        last if $range->[0] != $next;
        $next = $range->[1] + 1;
    }
    is($next, 8193, "$layer: every M from 1 to 8192, once");
}
mkdir "$work/folder" or BAIL_OUT("mkdir: $!");
spew("$work/folder/config.json", slurp($model));
is_deeply(
    decode_json(
        works('plan of a folder', '--json', '--arch=sm_90a', 'plan', '--quant', 'w4a16', '--model',
            "$work/folder")),
    $plan, 'options before the command, and a folder instead of its file'
);
my $table = works('plan', 'plan', $spec, '--arch', 'sm_80');
like($table, qr/\Akey +arch +M +spec +layers\n\S+ +sm_80 /, 'plan as a table');
{
    local $ENV{POSIXLY_CORRECT} = 1;
    is(works('plan with POSIXLY_CORRECT', 'plan', $spec, '--arch', 'sm_80'),
        $table, 'options may still stand last');
}

{
    my $pid = start('/dev/full', "$work/full.err", "$bin/hummingctl", 'plan', $spec, '--arch', 'sm_80');
    is(finish($pid), 1, 'output that cannot be written is a failure');
    like(slurp("$work/full.err"), qr/\Ahummingctl: [^\n]*stdout[^\n]*\n\z/, '... said in one line');
}

fails(1, qr/broken\.json/, 'plan', '--arch', 'sm_90a', '--model',
    spew("$work/broken.json", "not json\n"));
fails(1, qr/nowhere/, 'plan', '--arch', 'sm_90a', '--model', "$work/nowhere");
fails(1, qr/w9a9/, 'plan', '--arch', 'sm_90a', '--model', $model, '--quant', 'w9a9');
fails(1, qr/quant/, 'plan', '--arch', 'sm_90a', '--model', $model);
my @of_model = ('--arch', 'sm_90a', '--model', $model);
fails(1, qr/plan: --quant: /, 'plan', @of_model, '--quant', $_)
    for 'w9a9', 'w4a16,n=3', 'w4a16,topk=2', 'gemm,w4a16', 'dense=', 'experts=w4a16,dense=zz';
fails(1, qr/plan: --tp 2 and --ep 3/, 'plan', @of_model, '--quant', 'w4a16', '--tp', 2, '--ep', 3);
is_deeply([ map { $_->{key} } @{ decode_json(
            works('plan with bias', 'plan', @of_model, '--quant', 'w4a16,bias=1', '--json')) } ],
    [ map { $_->{key} } @$plan ], 'bias leads to the same kernels');
like(works('plan --help', 'plan', '--help'), qr/--arch A,B.*bias=1/s, '... which --help says');
# Of every quantization: few kernels, and what makes 8-bit activations with them.
for my $quant (qw(w8a16 w4a8 w4a8i w8a8 w8a8i mxfp4a16 mxfp4a8 fp8block), 'w8a8,acc=precise') {
    my $rows = decode_json(works("plan of $quant", 'plan', @of_model, '--quant', $quant, '--json'));
    cmp_ok(scalar @$rows, '<=', 16, "$quant needs at most 16 kernels");
    my @quants = grep { $_->{uses}[0]{layer} eq 'quant' } @$rows;
    my $widths = join ' ', sort map { "$_->{k}:$_->{m_lo}-$_->{m_hi}" } map { @{ $_->{uses} } } @quants;
    is($widths, $quant =~ /a16/ ? '' : '25600:1-8192 5120:1-8192 8192:1-8192',
        "$quant quantizes the activations of every layer");
}
fails(1, qr/a=e4m3 on sm_80: this build has kernels for sm_90a only/, 'plan', '--arch', 'sm_80',
    '--model', $model, '--quant', 'w8a8');
fails(1, qr/acc=precise: takes fp8/, 'plan', 'w4a16,acc=precise', '--arch', 'sm_90a');
like(works('plan of one', 'plan', $spec, '--arch', 'sm_80'), qr/^1 kernel;/m, 'one kernel');
# A target is unknown to our kernels in the same words everywhere.
for my $arch (qw(sm_88 sm_99 sm_80a)) {
    fails(1, qr/--arch: architecture $arch: this build has kernels for sm_80 .* only/, @$_,
        '--arch', $arch)
        for [ 'get', $spec ], [ 'plan', $spec ], [ 'prewarm', '--model', $model, '--quant', 'w4a16' ];
}
fails(1, qr/e4m3/, 'plan', 'w=u6,a=e4m3,group=128', '--arch', 'sm_90a');
fails(1, qr/pentium/, 'plan', $spec, '--arch', 'pentium');

# --- nobody there ----------------------------------------------------------

fails(1, qr{\Q$socket\E: No such file}, $_, '--socket', $socket) for qw(ping stop status stats);
fails(1, qr/\Q$socket\E/, 'get', $spec, '--arch', 'sm_90a', '--socket', $socket);
fails(1, qr/\Q$socket\E/, 'explain', $spec, '--arch', 'sm_90a', '--socket', $socket);
fails(1, qr/longer/, 'ping', '--socket', '/' . 'x' x 200);
fails(1, qr/passwd/, 'ping', '--socket', '/etc/passwd');

# --- closed standard files -------------------------------------------------

# Whatever is opened must not get the number of one that is closed: what was
# meant for people would be sent to the daemon, or written into a file.
sub start_closed {
    my ($closed, @arguments) = @_;
    my $pid = fork;
    BAIL_OUT("fork: $!") unless defined $pid;
    return $pid if $pid;
    open STDIN,  '<', '/dev/null'       or POSIX::_exit(97);
    open STDOUT, '>', "$work/closed.out" or POSIX::_exit(97);
    open STDERR, '>', "$work/closed.err" or POSIX::_exit(97);
    POSIX::close($_) for @$closed;
    exec "$bin/hummingctl", @arguments or POSIX::_exit(97);
}

for my $closed ([0], [1], [2], [ 1, 2 ], [ 0, 1, 2 ]) {
    my $name = 'with ' . join(',', @$closed) . ' closed';
    my $path = "$work/closed.s";
    my $sent = '';
    unlink $path;
    socket my $listener, PF_UNIX, SOCK_SEQPACKET, 0 or BAIL_OUT("socket: $!");
    bind $listener, pack_sockaddr_un($path) or BAIL_OUT("bind: $!");
    listen $listener, 5 or BAIL_OUT("listen: $!");
    my $pid = start_closed($closed, 'ping', '--socket', $path, '--timeout', '0.3');
    accept my $peer, $listener or BAIL_OUT("accept: $!");
    while (defined recv $peer, my $packet, 65536, 0) {
        last if $packet eq '';
        $sent .= $packet;
    }
    is(finish($pid), 1, "ping $name fails");
    ok(length $sent && $sent !~ /hummingctl: |deadline/, '... and sends no message to the daemon')
        or diag($sent);
    like(slurp("$work/closed.err"), qr/\A(hummingctl: [^\n]+\n)?\z/, '... in one line or none');
}
is(finish(start_closed([1], 'plan', $spec, '--arch', 'sm_80')), 1,
    'stdout that is closed cannot be written');
is(finish(start_closed([0], 'plan', $spec, '--arch', 'sm_80')), 0, 'stdin is not needed');

# --- a daemon --------------------------------------------------------------

start_daemon();
$ENV{HUMMING_SOCKET} = $socket;
like(works('ping', 'ping'), qr/\Ahummingd \S+ at \Q$socket\E answered in \d+ us\n\z/, 'ping');
my $status = decode_json(works('status --json', 'status', '--json'));
is($status->{pid}, $daemon, 'status is of this daemon');
like(works('status', 'status'), qr/^version +\S+\n/, 'status as text');
my $stats = decode_json(works('stats --json', 'stats', '--json'));
is(join(',', grep { !exists $stats->{$_} } qw(hits builds build_failures joined busy corrupt
            evicted bytes entries rss_bytes latency_us)),
    '', 'stats has the fields of the contract');
like(works('stats', 'stats'), qr/^builds +0$/m, 'stats as text');
{
    my $pid = ctl_start('watch', 'stats', '--watch', '--json');
    my $end = time + 20;
    sleep 0.1 while time < $end && (() = slurp("$work/watch.out") =~ /\n/g) < 2;
    kill 'TERM', $pid;
    is(finish($pid), 'signal 15', 'stats --watch runs until it is ended');
    my @lines = split /\n/, slurp("$work/watch.out");
    ok(@lines >= 2 && eval { decode_json($_) for @lines; 1 }, '... one object a line');
}
fails(1, qr/e4m3/, 'get', 'w=u6,a=e4m3,group=128', '--arch', 'sm_90a');
fails(1, qr/a=s4/, 'get', 'w4a4', '--arch', 'sm_90a');
fails(1, qr/w=u8 on sm_80/, 'get', 'w8a16', '--arch', 'sm_80');
fails(1, qr/sm_10\b/, 'get', $spec, '--arch', 'sm_10');
fails(1, qr/twice/, 'get', 'w4a16,m=1,m=2', '--arch', 'sm_90a');
fails(1, qr/no-such-file/, 'compile', "$work/no-such-file.cu", '--arch', 'sm_90a');
fails(1, qr/empty/, 'compile', spew("$work/empty.cu", ''), '--arch', 'sm_90a');

# Control characters are said to be where they are, not sent.
spew("$work/odd.cu", "__global__ void f() {}\n");
for my $control ("\n", "\t", "\e[31m", "\x7f", "\x01") {
    fails(1, qr/option '-DA=1[^']*x' holds a control character/, 'compile', "$work/odd.cu", '--arch',
        'sm_80', '-D', "A=1${control}x");
    fails(1, qr/name 'o[^']*d.cu' holds a control character/, 'compile',
        spew("$work/o${control}d.cu", "__global__ void f() {}\n"), '--arch', 'sm_80');
}

# --- a daemon that does not answer -----------------------------------------

kill 'STOP', $daemon;
for my $arguments (['ping'], [ 'stats', '--json' ], [ 'get', $spec, '--arch', 'sm_90a' ]) {
    my $begin = time;
    fails(1, qr/deadline|accepts/, @$arguments, '--timeout', '0.4');
    ok(time - $begin < 3, '... in time');
}
{
    local $ENV{HUMMING_TIMEOUT} = '0.3';
    fails(1, qr/deadline|accepts/, 'ping');
}
kill 'CONT', $daemon;

{
    my $end = time + 60;
    sleep 0.1
        while time < $end
        && decode_json((ctl('status', '--json'))[1])->{readiness} eq 'starting';
    my $status = decode_json((ctl('status', '--json'))[1]);
    if (is($status->{readiness}, 'ready', 'the compiler is ready')) {
        subtest 'with a compiler' => \&with_compiler;
    } else {
        diag($status->{degraded});
    }
}

sub with_compiler {
    my @fields = sort qw(key spec arch tier bytes entry registers spill_bytes smem_bytes
        compile_ms wait_us compiler);
    my $built = decode_json(works('get --json', 'get', $spec, '--arch', 'sm_90a', '--json'));
    is(join(',', sort keys %$built), join(',', @fields), 'exactly the fields of the contract');
    is($built->{tier}, 'built', 'the first is built');
    is($built->{arch}, 'sm_90a', 'for the target');
    is($built->{spec}, 'w=u4,group=128,m=1,n=4096,k=4096', 'under its canonical spec');
    my $hot = decode_json(
        works('get again', '--json', 'get', '-o', "$work/k.cubin", $spec, '--arch=sm_90a'));
    is($hot->{tier}, 'hot', 'the second is hot');
    is($hot->{$_}, $built->{$_}, "the same $_") for qw(key bytes entry compile_ms compiler);
    is(-s "$work/k.cubin", $hot->{bytes}, '-o writes the cubin');
    is(substr(slurp("$work/k.cubin"), 0, 4), "\x7fELF", '... which is an ELF file');
    is(join(',', glob "$work/k.cubin?*"), '', '... and leaves nothing else');
    works('-o to a device', 'get', $spec, '--arch', 'sm_90a', '-o', '/dev/null');
    ok(-c '/dev/null', '/dev/null is still a device');
    fails(1, qr{/no/such}, 'get', $spec, '--arch', 'sm_90a', '-o', '/no/such/folder/k');
    like(works('get', 'get', $spec, '--arch', 'sm_90a'), qr/\A[^\n]*hot[^\n]*\n\z/,
        'a readable line');

    spew("$work/bad.cu", "__global__ void f(int *x) { *x = y; }\n");
    my $log = fails(1, qr/"y" is undefined/, 'compile', "$work/bad.cu", '--arch', 'sm_90a');
    like($log, qr/"y" is undefined.*\n.*\n/, 'the whole log on stdout');
    $log = decode_json(
        fails(1, qr/"y" is undefined/, 'compile', "$work/bad.cu", '--arch', 'sm_90a', '--json'));
    like($log->{log}, qr/"y" is undefined/, '... in log with --json');
    fails(1, qr/line \d+; fatal +: Parsing error near '\.include'/, 'compile',
        spew("$work/ptx.cu", "__global__ void f() { asm(\".include \\\"x\\\"\"); }\n"),
        '--arch', 'sm_90a');
    $log = fails(1, qr/"y" is undefined/, 'compile',
        spew("$work/long.cu", "#warning again and again\n" x 2000 . slurp("$work/bad.cu")), '--arch',
        'sm_90a');
    like($log, qr/\n[^\n]*log cut at 16 KiB\n\z/, 'a log that is cut says so at its end');
    spew("$work/good.cu", "extern \"C\" __global__ void f(int *x) { *x = N + M; }\n");
    my $source = decode_json(
        works('compile', 'compile', "$work/good.cu", '-DN=4', '-D', 'M=1', '--arch', 'sm_80',
            '--json', '-o', "$work/f.cubin"));
    is($source->{entry}, 'f', 'the entry of the source');
    is(join(',', sort keys %$source), join(',', sort @fields, 'log'), 'fields of compile --json');
    is(-s "$work/f.cubin", $source->{bytes}, '-o writes it');
    fails(1, qr/sm_77|77/, 'compile', "$work/good.cu", '-DN=4', '-DM=1', '--arch', 'sm_77');

    my @want = ('w4a16,n=4096,k=4096', '--max-m', 8);
    my $rows = decode_json(
        works('prewarm', 'prewarm', @want, '--arch', 'sm_80,sm_90a', '--jobs', 2, '--json'));
    my $expected =
        decode_json(works('plan', 'plan', @want, '--arch', 'sm_80,sm_90a', '--json'));
    is(join(',', sort map { $_->{key} } @$rows), join(',', sort map { $_->{key} } @$expected),
        'prewarm builds exactly what plan lists');
    for my $row (@$expected) {
        my $got = decode_json(
            works('get of a row', 'get', $row->{spec}, '--arch', $row->{arch}, '--json'));
        is($got->{key}, $row->{key}, "spec of the row leads to its key: $row->{spec}");
        like($got->{tier}, qr/\A(hot|store)\z/, '... which is there');
    }
    like(works('prewarm again', 'prewarm', @want, '--arch', 'sm_80'),
        qr/^1\/\d+ done: hot sm_80 .*^(1 kernel|\d+ kernels) ready, 0 of them built/ms, 'lines and totals');
    SKIP: {
        skip 'no script(1) to make a terminal', 1 unless -x '/usr/bin/script';
        my $pid = start("$work/bar.out", "$work/bar.err", '/usr/bin/script', '-qec',
            "$bin/hummingctl prewarm $spec --arch sm_90a", '/dev/null');
        finish($pid);
        like(slurp("$work/bar.out"), qr/\[#{30}\] (\d)\/\1 /, 'a bar on a terminal');
    }
    my $all = decode_json(works('get of a model', 'get', '--arch', 'sm_80', '--max-m', 1,
            '--model', $model, '--quant', 'w4a16', '--json'));
    is(ref $all, 'ARRAY', 'all kernels of a model in one call');

    # 8-bit activations: GEMM, pack and what quantizes, by SPEC and by model.
    my @narrow = ('w4a8,n=4096,k=4096', 'pack,w4a8', 'quant,a=e4m3', '--max-m', 8);
    $rows = decode_json(works('prewarm of w4a8', 'prewarm', @narrow, '--arch', 'sm_90a', '--json'));
    $expected = decode_json(works('plan of w4a8', 'plan', @narrow, '--arch', 'sm_90a', '--json'));
    is(join(',', sort map { $_->{key} } @$rows), join(',', sort map { $_->{key} } @$expected),
        'prewarm builds what plan lists, of every operation');
    my %entries = map { $_->{entry} => 1 } @$rows;
    is(join(',', sort keys %entries), 'hm_gemm_stream,hm_quant,hm_weight_pack', '... by their entries');
    $all = decode_json(works('get of a w4a8 model', 'get', '--arch', 'sm_90a', '--max-m', 1,
            '--model', $model, '--quant', 'w4a8', '--json'));
    is(scalar(grep { $_->{entry} eq 'hm_quant' && $_->{tier} eq 'hot' } @$all), 1,
        'a model has its quantization, the same kernel');

    my $explained = decode_json(
        works('explain', 'explain', $spec, '--arch', 'sm_90a', '--json'));
    ok($explained->{stored} && !@{ $explained->{differences} }, 'explain: stored, no difference');
    like(works('explain', 'explain', 'w4a16,group=64,m=1,n=4096,k=4096', '--arch', 'sm_90a'),
        qr/not stored; the nearest is [0-9a-f]{64}.*^HM_GROUP +64 +128$/ms,
        'explain names the field that differs');

    # Killed while a client waits: it comes back to the next daemon.
    my $pid = ctl_start('kill', 'get', 'w4a16,m=4096,n=4096,k=4096', '--arch', 'sm_90a', '--json');
    my $end = time + 20;
    sleep 0.01
        while time < $end
        && decode_json((ctl('status', '--json'))[1])->{workers}{building} == 0;
    kill 'KILL', $daemon;
    waitpid $daemon, 0;
    start_daemon();
    is(finish($pid), 0, 'a client whose daemon was killed still gets its kernel');
    is(slurp("$work/kill.err"), '', '... without a word');
    is(decode_json(works('get', 'get', $spec, '--arch', 'sm_90a', '--json'))->{tier}, 'store',
        'after a restart: from the store');
    return;
}

# --- administration --------------------------------------------------------

my $key = '0123456789abcdef' x 4;
fails(2, qr/needs a KEY/, $_) for qw(evict pin unpin);
fails(2, qr/one KEY/, $_, $key, $key) for qw(evict pin unpin);
fails(2, qr/not both/, 'evict', '--all', $key);
fails(2, qr/takes no operand/, $_, 'x') for qw(verify drain reload doctor);
fails(2, qr/does not take --all/, 'pin', '--all', $key);
fails(1, qr/no key/, $_, 'abc') for qw(evict pin unpin);
fails(1, qr/no key/, 'pin', 'g' x 64);
fails(1, qr/no kernel/, $_, $key) for qw(evict pin unpin);
like(works('verify', 'verify'), qr/\A\d+ kernels checked \(\d+ bytes\), 0 damaged\n\z/, '... in words');
is(decode_json(works('verify', 'verify', '--json'))->{damaged}, 0, '... and as JSON');
is(works('reload', 'reload'), "configuration read again\n", '... and says so');
ok(decode_json(works('reload', 'reload', '--json'))->{reloaded}, '... also as JSON');
my @verifiers = map { ctl_start("verify$_", 'verify') } 1 .. 8;
is(join(',', map { finish($_) } @verifiers), join(',', (0) x 8), 'eight at once take turns');
my $report = decode_json(works('doctor', 'doctor', '--json'));
my %state = map { $_->{check} => $_->{state} } @{ $report->{checks} };
is($state{$_}, 'ok', "doctor: $_") for qw(socket version store rights);
like(works('doctor', 'doctor'), qr/^store\s+ok\s+\Q$work\E\/store$/m, 'doctor in words');
is(decode_json(works('evict', 'evict', '--all', '--json'))->{evicted} > -1, 1, 'evict --all');
is(decode_json(works('stats', 'stats', '--json'))->{entries}, 0, '... leaves nothing');

SKIP: {
    skip 'no compiler', 1 if !with_ready_compiler();
    subtest 'pins' => sub {
        $key = decode_json(works('get', 'get', $spec, '--arch', 'sm_90a', '--json'))->{key};
        is(works('pin', 'pin', $key), "pinned\n", 'pin');
        fails(1, qr/unpin/, 'evict', $key);
        is(works('evict', 'evict', '--all'), "0 kernels evicted\n", 'a pinned kernel stays');
        is(works('unpin', 'unpin', uc $key), "unpinned\n", 'unpin, whatever the case');
        is(works('evict', 'evict', $key), "1 kernels evicted\n", 'and it goes');
    };
}

# --- drain -----------------------------------------------------------------

like(works('drain', 'drain'), qr/finished and left/, 'drain');
waitpid $daemon, 0;
is($? >> 8, 0, 'the daemon left in order');
fails(1, qr/\Q$socket\E/, 'drain');
fails(1, qr/checks failed/, 'doctor');

# --- reload ----------------------------------------------------------------

start_daemon('-c', spew("$work/conf", "[store]\nttl_s = 0\n"));
spew("$work/conf", "[store]\nttl = 1\n");
fails(1, qr/conf:2: unknown key 'store.ttl'/, 'reload');
spew("$work/conf", "[store]\nttl_s = 1\ncap = 1G\n");
like(works('reload', 'reload'), qr/need a restart: store.cap$/m, '... names what needs a restart');

SKIP: {
    skip 'no compiler', 1 if !with_ready_compiler();
    # The new age holds for what is there already.
    my $end = time + 30;
    my %seen;
    $seen{ decode_json((ctl('get', $spec, '--arch', 'sm_90a', '--json'))[1])->{tier} }++
        while time < $end && ($seen{built} // 0) < 2;
    cmp_ok($seen{built}, '>=', 2, 'a kernel that grew too old by the new configuration is built again');
}

# Until a compiler has reported; whether it is ready.
sub with_ready_compiler {
    my $end = time + 30;
    my $readiness = 'starting';
    while ($readiness eq 'starting' && time < $end) {
        $readiness = decode_json((ctl('status', '--json'))[1])->{readiness};
        sleep 0.05;
    }
    return $readiness eq 'ready';
}

works('stop', 'stop');
waitpid $daemon, 0;
start_daemon();

# --- stop ------------------------------------------------------------------

works('stop', 'stop');
waitpid $daemon, 0;
is($? >> 8, 0, 'the daemon left in order');
$daemon = 0;
fails(1, qr/\Q$socket\E/, 'ping');
delete $ENV{HUMMING_SOCKET};

# --- autostart -------------------------------------------------------------

SKIP: {
    skip 'a hummingd of this node is there', 1 if -e '/run/hummingd/hummingd.sock';
    subtest 'autostart' => \&autostart;
}

sub autostart {
    my $folder = "$work/tmp/humming-$>";
    fails(1, qr/no hummingd/, $_) for qw(ping status stats stop);
    ok(!-e $folder, 'these start nothing');
    my @pids = map {
        ctl_start("auto$_", 'get', $spec, '--arch', 'sm_90a', '--json', '--timeout', 60)
    } 1 .. 6;
    my @codes = map { finish($_) } @pids;
    my @errors = map { slurp("$work/auto$_.err") } 1 .. 6;
    my $pid = eval { decode_json((ctl('status', '--json'))[1])->{pid} };
    ok($pid, 'a private daemon runs') or diag(@errors);
    is(() = slurp("$folder/hummingd.log") =~ /listening/g, 1, '... and only one was started');
    is((stat $folder)[2] & 07777, 0700, '... in a folder of our own');
    is(join(' ', @codes), '0 0 0 0 0 0', 'all callers got their kernel') or diag(@errors);
    is(decode_json((ctl('stats', '--json'))[1])->{builds}, 1, '... from one build');
    works('stop', 'stop');
    # Its parent has long left: where nobody reaps orphans it stays a zombie.
    my $end = time + 5;
    sleep 0.02 while $pid && time < $end && slurp("/proc/$pid/stat") =~ /\) [^ZX]/;
    ok(slurp("/proc/$pid/stat") !~ /\) [^ZX]/, 'it is gone') if $pid;

    # A folder that others may write is not believed.
    chmod 0777, $folder;
    fails(1, qr/only this user/, 'get', $spec, '--arch', 'sm_90a');
    chmod 0700, $folder;
    return;
}

done_testing();
