#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
#
# abi.t - libhumming.so exports what the public headers declare and nothing
# else, and that is the committed list tests/abi/humming.symbols: a name that is
# added or goes is a decision, not an accident.
use strict;
use warnings;
use File::Basename qw(dirname);
use Test::More;

my $bin = $ENV{HM_BIN_DIR} or BAIL_OUT('HM_BIN_DIR is not set');
my $root = dirname(__FILE__) . '/../..';
my ($library) = glob "$bin/../lib/libhumming.so.*.*";
ok($library, 'the library was built') or BAIL_OUT("no libhumming.so beside $bin");

sub slurp {
    my ($path) = @_;
    open my $handle, '<', $path or BAIL_OUT("$path: $!");
    local $/;
    return scalar <$handle>;
}

open my $nm, '-|', 'nm', '-D', '--defined-only', $library or BAIL_OUT("nm: $!");
my @exported = sort map { /^[0-9a-f]+ [TDBR] (\w+)/ ? $1 : () } <$nm>;
close $nm or BAIL_OUT('nm failed');

my %declared;
for my $header (glob "$root/client/include/humming/*.h") {
    my $text = slurp($header);
    $text =~ s{/\*.*?\*/}{}gs;
    $declared{$1} = 1 while $text =~ /HUMMING_API[^;(]*?\b(humming_\w+)\s*\(/g;
}
is(join("\n", @exported), join("\n", sort keys %declared), 'exported = declared HUMMING_API');
is(join("\n", @exported), join("\n", sort split /\n/, slurp("$root/tests/abi/humming.symbols")),
    'exported = the committed list');

open my $read, '-|', 'readelf', '-d', $library or BAIL_OUT("readelf: $!");
my @needed = sort map { /NEEDED.*\[(\w+)/ ? $1 : () } <$read>;
close $read or BAIL_OUT('readelf failed');
is(join(' ', grep { /cuda|nvrtc|event|lmdb|grpc|jansson/ } @needed), '', 'needs no CUDA, no library of the daemon');

done_testing();
