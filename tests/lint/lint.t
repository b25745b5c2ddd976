#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
#
# lint.t - house rules that a machine can check, over every tracked source:
# include directions (DESIGN.md section 8), one owner per foreign library,
# banned calls, size budgets, SPDX line, width, formatting.
use strict;
use warnings;
use File::Basename qw(dirname);
use File::Find;
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
    grep { -d } qw(proto cache jit daemon client kernels tests)
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
    client => [qw(client proto jit cache)],
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
            push @layer, "$file includes $header: cache/ and jit/ never meet"
                if $room eq 'client' && $to eq 'cache';
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
report('no file over its budget', @long_file);

# --- clang-format's answer is the style ----------------------------------------
my @formatted = grep { !m{^tests/gpu} } @files;
my $output = `clang-format --dry-run --ferror-limit=1 @formatted 2>&1`;
my @unformatted = $output =~ /^(\S+:\d+:\d+): warning: code should be clang-formatted/mg;
report('clang-format agrees', @unformatted);

done_testing();
