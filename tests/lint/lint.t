#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
#
# lint.t - house rules that a machine can check, over every tracked source:
# include directions (DESIGN.md section 8), one owner per foreign library,
# banned calls, budgets of size, nesting and parameters, SPDX line, width,
# formatting, presets. What needs a compiler's eye is .clang-tidy's (preset
# `analyze`); the budgets are checked here too, as this runs everywhere.
use strict;
use warnings;
use File::Basename qw(dirname);
use File::Find;
use JSON::PP qw(decode_json);
use Test::More;

chdir dirname(__FILE__) . '/../..' or BAIL_OUT("cannot find the source tree");

my @files;
find(
    {
        no_chdir => 1,
        wanted   => sub {
            push @files, $File::Find::name if -f && /\.(c|h|cu|cuh|cpp)$/;
        }
    },
    qw(proto cache jit daemon client kernels tests)
);
@files = sort @files;
my %text = map { $_ => slurp($_) } @files;

sub slurp {
    my ($path) = @_;
    open my $handle, '<', $path or BAIL_OUT("$path: $!");
    local $/;
    return scalar <$handle>;
}

# Comments and strings blanked, line numbers kept.
sub code_of {
    my ($source) = @_;
    $source =~ s{(/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*')}
        { my $s = $1; my $n = () = $s =~ /\n/g; '""' . "\n" x $n }gse;
    return $source;
}

sub report {
    my ($name, @bad) = @_;
    ok(!@bad, $name) or diag(join "\n", @bad);
    return;
}

# --- include directions ----------------------------------------------------
my %may = (
    proto  => [qw(proto)],
    cache  => [qw(cache proto)],
    jit    => [qw(jit proto)],
    client => [qw(client proto jit)],
    daemon => [qw(daemon proto cache jit)],
);
my (@layer, @foreign);
my %owner = (
    qr{^lmdb\.h$}       => [qr{^cache/store_lmdb}],
    qr{^event2?/}       => [qr{^daemon/}],
    qr{pb-c\.h$}        => [qr{^proto/(codec|wire)}],
    qr{^jansson\.h$}    => [qr{^jit/model}, qr{^daemon/}, qr{^client/ctl}],
    qr{^ini\.h$}        => [qr{^daemon/config\.c$}],
    qr{^(cuda|nvrtc)\.h$} => [qr{^tests/gpu/}],
);
for my $file (grep { !/^(tests|kernels)/ } @files) {
    my ($room) = split m{/}, $file;
    while ($text{$file} =~ /^#include\s+["<]([^">]+)[">]/mg) {
        my $header = $1;
        if ($header =~ m{^(proto|cache|jit|daemon|client|kernels|tests)/}) {
            my $to = $1;
            push @layer, "$file includes $header"
                unless grep { $_ eq $to } @{ $may{$room} };
        }
        for my $pattern (keys %owner) {
            push @foreign, "$file includes $header"
                if $header =~ $pattern
                && !grep { $file =~ $_ } @{ $owner{$pattern} };
        }
    }
}
report('includes follow the layers', @layer);
report('every foreign library has one owner', @foreign);

# --- banned calls ------------------------------------------------------------
my $banned = qr/\b(strcpy|strcat|sprintf|vsprintf|strtok|atoi|atol|system|popen
    |fork|vfork|signal|usleep|alloca|gets|dup)\s*\(/x;
my @banned;
for my $file (grep { !/^kernels/ } @files) {
    my $number = 0;
    for my $line (split /\n/, code_of($text{$file})) {
        $number++;
        push @banned, "$file:$number: $1" if $line =~ $banned;
        push @banned, "$file:$number: assert.h"
            if $text{$file} =~ /<assert\.h>/ && $number == 1;
    }
}
report('no banned call', @banned);

# Functions that share memory between threads, in programs that have threads
# (glibc's manual; strerror, strsignal and readdir are safe there).
my $unsafe = qr/\b(asctime|ctime|gmtime|localtime|getpwnam|getpwuid|getgrnam
    |getgrgid|getpwent|getgrent|getlogin|gethostbyname|getservbyname|inet_ntoa
    |rand|srand|random|drand48|lrand48|mrand48|setenv|putenv|clearenv|setlocale
    |tmpnam|mktemp|ttyname|ptsname|basename|dirname|hcreate|hsearch
    |crypt|ecvt|fcvt|gcvt)\s*\(/x;
my %before_threads = ('daemon/limits.c' => 'getgrnam');
my @unsafe;
for my $file (grep { !/^(kernels|tests)/ } @files) {
    my $number = 0;
    for my $line (split /\n/, code_of($text{$file})) {
        $number++;
        push @unsafe, "$file:$number: $1"
            if $line =~ $unsafe && ($before_threads{$file} // '') ne $1;
    }
}
report('no call that threads cannot share', @unsafe);

# Which lines a NOLINT of this check covers.
sub silenced {
    my ($check, @lines) = @_;
    my ($on, %covered) = (0);
    for my $i (0 .. $#lines) {
        $on = 1 if $lines[$i] =~ /NOLINTBEGIN\([^)]*\b$check\b/;
        $covered{$i} = 1 if $on;
        $covered{ $i + 1 } = 1 if $lines[$i] =~ /NOLINTNEXTLINE\([^)]*\b$check\b/;
        $on = 0 if $lines[$i] =~ /NOLINTEND\([^)]*\b$check\b/;
    }
    return %covered;
}

my @bare_nolint;
for my $file (@files) {
    my $number = 0;
    for my $line (split /\n/, $text{$file}) {
        $number++;
        push @bare_nolint, "$file:$number" if $line =~ /\bNOLINT(NEXTLINE|BEGIN|END)?\b(?!\()/;
    }
}
report('every NOLINT names its check', @bare_nolint);

# --- first line, width, budgets ------------------------------------------------
my @spdx = grep { $text{$_} !~ m{\A/\* SPDX-License-Identifier: Apache-2\.0 \*/\n} } @files;
report('SPDX line first', @spdx);

my (@wide, @space);
for my $file (@files) {
    my $limit = $file =~ /\.(cu|cuh|cpp)$/ ? 100 : 80;
    my $number = 0;
    for my $line (split /\n/, $text{$file}) {
        $number++;
        (my $expanded = $line) =~ s/\t/        /g;
        $expanded =~ s/[^\x00-\x7f]{2,3}/x/g;
        push @wide, "$file:$number" if length $expanded > $limit && $file !~ m{^tests/gpu};
        push @space, "$file:$number" if $line =~ /[ \t]$/;
    }
}
report('lines within their width', @wide);
report('no trailing space', @space);

# Functions of C files: body from a line "{" to a line "}".
my (@long_function, @long_file);
for my $file (grep { /\.(c|h)$/ } @files) {
    my @lines = split /\n/, $text{$file};
    my $start;
    for my $i (0 .. $#lines) {
        $start = $i if $lines[$i] eq '{';
        if (defined $start && $lines[$i] eq '}') {
            my $size = $i - $start + 1;
            push @long_function, sprintf '%s:%d: %d lines', $file, $start + 1, $size
                if $size > 80;
            undef $start;
        }
    }
    my $limit = $file =~ m{^client/include/} ? 1000 : $file =~ /\.h$/ ? 300 : 800;
    push @long_file, "$file: " . scalar(@lines) . ' lines'
        if @lines > $limit && $file !~ /^tests/;
}
report('no function over 80 lines', @long_function);

# clang-format has made depth visible: the tabs in front of a statement.
my (@deep, @many);
for my $file (grep { /\.(c|h)$/ } @files) {
    my @lines = split /\n/, $text{$file};
    my %silenced = silenced('readability-function-size', @lines);
    my @code = split /\n/, code_of($text{$file});
    for my $i (0 .. $#code) {
        push @deep, "$file:" . ($i + 1)
            if $code[$i] =~ /^\t{4}(\t|.*\{$)/
            && $code[$i] =~ /^\t+(\} else|(if|for|while|do|switch|else|\w+_FOREACH)\b)/
            && $code[$i] !~ /\\$/;
    }
    my $code = join "\n", @code;
    while ($code =~ /^(\w+)\(((?:[^()]|\((?:[^()]|\([^()]*\))*\))*)\)\s*(?:\{|;)/mg) {
        my ($name, $list, $line) = ($1, $2, substr($code, 0, $-[0]) =~ tr/\n//);
        1 while $list =~ s/\([^()]*\)//g;
        my $n = 1 + ($list =~ tr/,//);
        push @many, sprintf '%s:%d: %s has %d', $file, $line + 1, $name, $n
            if $n > 6 && !$silenced{$line};
    }
}
report('no more than three blocks inside each other', @deep);
report('no function with more than 6 parameters', @many);

# Device code: a body ends at the first column too.
my @long_device;
for my $file (grep { /^kernels/ } @files) {
    my @lines = split /\n/, $text{$file};
    my ($start, $limit);
    for my $i (0 .. $#lines) {
        if (!defined $start && $lines[$i] =~ /^[^\s#\/].*\(|^\s+.*\) \{$/ && $lines[$i] =~ /\{$/) {
            ($start, $limit) = ($i, 60);
            my $head = join ' ', @lines[ ($i > 6 ? $i - 6 : 0) .. $i ];
            $limit = 120 if $head =~ /__global__|HM_ENTRY|extern "C"/;
        }
        if (defined $start && $lines[$i] =~ /^\}/) {
            my $size = $i - $start + 1;
            push @long_device, sprintf '%s:%d: %d lines', $file, $start + 1, $size
                if $size > $limit;
            undef $start;
        }
    }
}
report('no device function over its budget', @long_device);
report('no file over its budget', @long_file);

# --- clang-format's answer is the style ----------------------------------------
my @formatted = grep { !m{^tests/gpu} } @files;
my $output = `clang-format --dry-run --ferror-limit=1 @formatted 2>&1` // '';
is($?, 0, 'clang-format ran') or diag($output);
my @unformatted = $output =~ /^(\S+:\d+:\d+): warning: code should be clang-formatted/mg;
# It is silent when it agrees: what cannot be read as a place is no agreement.
report('clang-format agrees', @unformatted ? @unformatted : split /\n/, $output);

# --- scripts and presets -----------------------------------------------------------
my @scripts;
find(
    {
        no_chdir => 1,
        wanted   => sub {
            $File::Find::prune = 1 if m{^\./(build|\.git|\.carry)$};
            push @scripts, $File::Find::name
                if -f && (/\.(sh|t|pl|cmake)$/ || m{/(CMakeLists\.txt|tap-run|\.ci/run)$});
        }
    },
    '.'
);
ok(@scripts > 10, 'there are scripts');
my @no_spdx = grep { slurp($_) !~ /\A(#![^\n]*\n)?# SPDX-License-Identifier: Apache-2\.0\n/ } @scripts;
report('SPDX line in scripts', @no_spdx);
my @broken = grep { /\.sh$|tap-run$/ && system_fails('sh', '-n', $_) } @scripts;
report('scripts parse', @broken);

sub system_fails {
    my @command = @_;
    open my $pipe, '-|', @command or return 1;
    my @said = <$pipe>;
    return !close $pipe;
}

my $presets = decode_json(slurp('CMakePresets.json'));
my %names;
for my $kind (qw(configure build test)) {
    $names{$kind} = join ' ', sort map { $_->{name} }
        grep { !$_->{hidden} } @{ $presets->{ $kind . 'Presets' } };
}
is($names{configure}, 'analyze asan clang coverage dev fuzz release tsan', 'the presets of the house');
is($names{build}, $names{configure}, 'each builds');
is($names{test}, $names{configure}, 'each tests');

done_testing();
