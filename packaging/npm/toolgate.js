#!/usr/bin/env node
// Starts the program toolgate, which lies in a package of its own for each platform: npm installs the one whose `os` and `cpu`
// fit. Nothing runs at install time.
'use strict';

const fs = require('node:fs');
const os = require('node:os');

const { name, version, optionalDependencies } = require('./package.json');
const EXIT_FAILURE = 2; // as toolgate's own failures

function fail(...lines) {
  process.stderr.write(`toolgate: ${lines.join('\n  ')}\n`);
  process.exit(EXIT_FAILURE);
}

/** The path of the program for this platform. */
function program() {
  const platform = `${process.platform}-${process.arch}`;
  const wanted = `@toolgate/${platform}`;
  if (!(wanted in optionalDependencies)) {
    const known = Object.keys(optionalDependencies).map((entry) => entry.split('/')[1]);
    fail(
      `there is no npm package for this platform, \`${platform}\`, only for ${known.join(', ')}`,
      'next: build toolgate from its source with cargo, as docs/install.md describes',
    );
  }
  try {
    return require.resolve(`${wanted}/bin/toolgate`);
  } catch {
    return fail(
      `the package \`${wanted}\`, which has the program for this platform, is not installed`,
      `next: install again without \`--omit=optional\` or \`--no-optional\`: npm install ${name}@${version}`,
      'a folder node_modules that was copied from another platform has the package of that platform: delete it first',
    );
  }
}

/** Runs the program as a child process, with this process in its place for signals and the exit code. */
function run(file, args) {
  const child = require('node:child_process').spawn(file, args, { stdio: 'inherit' });
  const forwarded = ['SIGHUP', 'SIGINT', 'SIGQUIT', 'SIGTERM', 'SIGUSR1', 'SIGUSR2'];
  for (const signal of forwarded) process.on(signal, () => child.kill(signal));
  child.on('error', (error) => fail(`cannot start \`${file}\`: ${error.message}`));
  child.on('exit', (code, signal) => {
    if (signal === null) process.exit(code);
    // The parent of this process sees the same end: by a signal.
    process.removeAllListeners(signal);
    process.kill(process.pid, signal);
    // A signal that this process cannot be ended by, such as one that Node handles.
    setTimeout(() => process.exit(128 + os.constants.signals[signal]), 1000);
  });
}

const file = program();
const args = process.argv.slice(2);
// Node 22.15 and later: the program replaces this process, which then costs no memory.
if (typeof process.execve === 'function') {
  try {
    fs.accessSync(file, fs.constants.X_OK); // a failed execve ends Node without a message
    process.execve(file, [file, ...args], process.env);
  } catch {
    run(file, args);
  }
} else {
  run(file, args);
}
